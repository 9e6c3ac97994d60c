import APNsProtocol
import TestSupport
import Testing

@Suite("Frames of the binary provider interface")
struct BinaryFrameTests {
    private func decode(_ pieces: [ArraySlice<UInt8>]) -> ([BinaryFrame], BinaryFrameDecoder) {
        var decoder = BinaryFrameDecoder()
        var frames: [BinaryFrame] = []
        for piece in pieces { decoder.decode(Array(piece), into: &frames) }
        return (frames, decoder)
    }

    /// The refusal of bytes that follow a good frame, the same at every split.
    private func refusal(
        of bytes: [UInt8], _ location: SourceLocation = #_sourceLocation
    ) -> BinaryRefusal? {
        let good = BinaryVector.all[0].bytes
        let stream = good + bytes + good
        let whole = decode([stream[...]])
        #expect(whole.0.count == 1, sourceLocation: location)
        #expect(whole.1.refusal?.offset == good.count, sourceLocation: location)
        for cut in stride(from: 0, through: stream.count, by: max(1, stream.count / 150)) {
            let other = decode([stream[..<cut], stream[cut...]])
            guard other.0 == whole.0, other.1.refusal == whole.1.refusal,
                other.1.bytesSeen == stream.count, other.1.wholeFrameBytes == good.count
            else {
                Issue.record("another result at \(cut)", sourceLocation: location)
                break
            }
        }
        return whole.1.refusal
    }

    private func framed(_ items: [(UInt8, [UInt8])]) -> [UInt8] {
        let body = items.flatMap { number, data in
            [number, UInt8(data.count >> 8), UInt8(data.count & 255)] + data
        }
        return [2] + (0..<4).map { UInt8(truncatingIfNeeded: body.count >> (24 - 8 * $0)) } + body
    }

    private let token: (UInt8, [UInt8]) = (1, FeedbackVector.ascending)
    private let payload: (UInt8, [UInt8]) = (2, BinaryVector.payload)
    private let identifier: (UInt8, [UInt8]) = (3, [0, 0, 0, 7])

    @Test(
        "each vector is encoded byte for byte, and decoded at every split and unfinished at every length",
        arguments: BinaryVector.all)
    func vectors(vector: BinaryVector) throws {
        let frame = try vector.frame()
        var encoded: [UInt8] = []
        frame.encode(into: &encoded)
        #expect(encoded == vector.bytes && frame.encodedLength == encoded.count)
        let bytes = vector.bytes + vector.bytes
        let splits =
            (0...bytes.count).map { [bytes[..<$0], bytes[$0...]] } + [
                bytes.indices.map { bytes[$0...$0] }
            ]
        for pieces in splits {
            let (frames, decoder) = decode(pieces)
            #expect(frames == [frame, frame])
            #expect(decoder.refusal == nil && decoder.unfinished == 0)
            #expect(decoder.wholeFrameBytes == bytes.count)
        }
        for count in 1..<encoded.count {
            let (frames, decoder) = decode([encoded[..<count]])
            #expect(frames.isEmpty && decoder.refusal == nil && decoder.unfinished == count)
        }
    }

    @Test("the largest frame of each command has Apple's sizes, and one byte more is refused")
    func limits() throws {
        let token = try #require(DeviceToken(FeedbackVector.ascending))
        func frame(
            _ command: BinaryCommand, _ token: DeviceToken, _ size: Int,
            _ priority: NotificationPriority = .immediate
        ) throws(BinaryFault) -> BinaryFrame {
            try BinaryFrame(
                command, identifier: 1, expiration: 0, priority: priority, token: token,
                payload: [UInt8](repeating: 0x20, count: size))
        }
        func status(_ body: () throws -> BinaryFrame) -> BinaryStatus? {
            do { _ = try body() } catch { return (error as? BinaryFault)?.status }
            return nil
        }
        for (command, size) in [(BinaryCommand.simple, 293), (.enhanced, 301), (.framed, 2109)] {
            let limit = command.payloadLimit
            let largest = try frame(command, token, limit)
            var bytes: [UInt8] = []
            largest.encode(into: &bytes)
            #expect(bytes.count == size)
            #expect(decode([bytes[...]]).0 == [largest])
            #expect(status { try frame(command, token, limit + 1) } == .invalidPayloadSize)
        }
        let (long, longer) = (
            DeviceToken([UInt8](repeating: 1, count: 100)),
            DeviceToken([UInt8](repeating: 1, count: 101))
        )
        #expect(
            try frame(.framed, #require(long), 2048).encodedLength == BinaryFrame.longest)
        #expect(status { try frame(.framed, #require(longer), 9) } == .invalidTokenSize)
        #expect(status { try frame(.framed, token, 0) } == .missingPayload)
        #expect(status { try frame(.framed, token, 9, .lowest) } == .protocolError)
    }

    @Test("a wrong length in commands 0 and 1 is refused with its status and the identifier")
    func wrongBodies() {
        let enhanced: [UInt8] = [1, 0, 0, 0, 9, 0, 0, 0, 0]
        let token = [0, 32] + FeedbackVector.ascending
        let cases: [([UInt8], BinaryStatus)] = [
            ([0, 0, 0, 0], .missingToken), ([0, 101, 1], .invalidTokenSize),
            ([255, 255], .invalidTokenSize), (token + [0, 0], .missingPayload),
            (token + [1, 1, 0x20], .invalidPayloadSize),
        ]
        for (bytes, status) in cases {
            let simple = refusal(of: [0] + bytes)
            #expect(simple?.fault.status == status)
            #expect(simple?.answer == nil, "command 0 has no error packet")
            #expect(
                refusal(of: enhanced + bytes)?.answer == BinaryErrorPacket(status, identifier: 9))
        }
    }

    @Test("a wrong item of command 2 is refused with its status and the identifier behind it")
    func wrongItems() {
        let cases: [([(UInt8, [UInt8])], BinaryStatus, String)] = [
            ([payload], .missingToken, "no device token"), ([token], .missingPayload, "no payload"),
            ([], .missingToken, "no device token"),
            ([(1, []), payload], .missingToken, "no device token"),
            ([token, (2, [])], .missingPayload, "no payload"),
            ([(1, .init(repeating: 1, count: 101)), payload], .invalidTokenSize, "101 bytes"),
            ([token, (2, .init(repeating: 32, count: 2049))], .invalidPayloadSize, "2049 bytes"),
            ([token, payload, token], .protocolError, "item 1 (token) occurs twice"),
            ([token, payload, (3, [0, 0, 1])], .protocolError, "3 bytes in place of 4"),
            ([token, payload, (4, [0])], .protocolError, "1 bytes in place of 4"),
            ([token, payload, (5, [0, 10])], .protocolError, "2 bytes in place of 1"),
            ([token, payload, (5, [1])], .protocolError, "priority 1"),
            ([token, payload, (5, [7])], .protocolError, "priority 7"),
        ]
        for (items, status, words) in cases {
            let refusal = refusal(of: framed(items + [identifier]))
            #expect(refusal?.answer == BinaryErrorPacket(status, identifier: 7))
            #expect(refusal?.description.contains("identifier 7") == true)
            #expect(refusal?.description.contains(words) == true, "\(refusal as Any)")
        }
        for number in [UInt8(0), 6, 255] {
            let refusal = refusal(of: framed([identifier, token, (number, [1]), payload]))
            #expect(refusal?.answer == BinaryErrorPacket(.protocolError, identifier: 7))
            #expect(refusal?.description.contains("item \(number) is none") == true)
        }
    }

    @Test(
        "a frame that is no frame is refused with protocol error: command, length, cut items",
        arguments: [
            ([3], "command 3"), ([2, 0xFF, 0xFF, 0xFF, 0xFF], "announces 4294967295 bytes"),
            ([2, 0, 0, 0, 2, 3, 0], "ends 2 bytes into"),
            ([2, 0, 0, 0, 5, 1, 0, 3, 1, 1], "announces 3 bytes, and the frame has 2 left"),
            (BinaryVector.oneByteLengths, "lengths of one byte"),
        ] as [([UInt8], String)])
    func noFrames(bytes: [UInt8], words: String) {
        let fault = refusal(of: bytes)?.fault
        #expect(fault?.status == .protocolError)
        #expect(fault?.description.contains(words) == true, "\(fault as Any)")
    }

    @Test("random frames in random order of their items are read back at random splits")
    func randomFrames() throws {
        var random = SeededGenerator("binary frames")
        for _ in 0..<300 {
            var bytes: [UInt8] = []
            var expected: [BinaryFrame] = []
            for _ in 0..<Int.random(in: 1...12, using: &random) {
                let (written, frame) = try randomFrame(&random)
                bytes += written
                expected.append(frame)
                #expect(frame.encodedLength == written.count)
            }
            var pieces: [ArraySlice<UInt8>] = []
            var start = 0
            while start < bytes.count {
                let end = min(bytes.count, start + Int.random(in: 1...600, using: &random))
                pieces.append(bytes[start..<end])
                start = end
            }
            let (frames, decoder) = decode(pieces)
            guard frames == expected, decoder.refusal == nil, decoder.unfinished == 0 else {
                Issue.record("seed \(random.seed): \(decoder.refusal as Any)")
                return
            }
        }
    }

    /// A frame, and its bytes by an encoder that shares no code with the one under test.
    private func randomFrame(
        _ random: inout SeededGenerator
    ) throws -> ([UInt8], BinaryFrame) {
        let command = [BinaryCommand.simple, .enhanced, .framed].one(&random)
        let token = random.bytes(Int.random(in: 1...100, using: &random))
        let payload = random.bytes(Int.random(in: 1...command.payloadLimit, using: &random))
        let id = random.bytes(4)
        let time = random.bytes(4)
        let urgency: NotificationPriority = [.immediate, .conserving].one(&random)
        func number(_ bytes: [UInt8]) -> UInt32 { bytes.reduce(0) { $0 << 8 | UInt32($1) } }
        func sized(_ bytes: [UInt8]) -> [UInt8] {
            [UInt8(bytes.count / 256), UInt8(bytes.count % 256)] + bytes
        }
        let has = (0..<3).map { _ in command == .enhanced || Bool.random(using: &random) }
        let bytes: [UInt8]
        switch command {
        case .simple: bytes = [0] + sized(token) + sized(payload)
        case .enhanced: bytes = [1] + id + time + sized(token) + sized(payload)
        case .framed:
            var items: [(UInt8, [UInt8])] = [(1, token), (2, payload)]
            if has[0] { items.append((3, id)) }
            if has[1] { items.append((4, time)) }
            if has[2] { items.append((5, [urgency.rawValue])) }
            bytes = framed(items.shuffled(using: &random))
        }
        let frame = try BinaryFrame(
            command, identifier: has[0] ? number(id) : nil, expiration: has[1] ? number(time) : nil,
            priority: has[2] ? urgency : nil, token: try #require(DeviceToken(token)),
            payload: payload)
        // The encoder writes items in the order of their numbers: the same bytes in another order.
        var encoded: [UInt8] = []
        frame.encode(into: &encoded)
        #expect(encoded.count == bytes.count)
        #expect(decode([encoded[...]]).0 == [frame], "seed \(random.seed)")
        return (bytes, frame)
    }
}
