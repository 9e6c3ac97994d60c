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

    @Test("each vector is encoded byte for byte", arguments: BinaryVector.all)
    func encoding(vector: BinaryVector) throws {
        var bytes: [UInt8] = []
        let frame = try vector.frame()
        frame.encode(into: &bytes)
        #expect(bytes == vector.bytes)
        #expect(frame.encodedLength == bytes.count)
    }

    @Test(
        "each vector is decoded at every split in two and byte by byte", arguments: BinaryVector.all
    )
    func decoding(vector: BinaryVector) throws {
        let frame = try vector.frame()
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
    }

    @Test("a frame that ends early stays unfinished at every length", arguments: BinaryVector.all)
    func unfinished(vector: BinaryVector) {
        for count in 1..<vector.bytes.count {
            let (frames, decoder) = decode([vector.bytes[..<count]])
            #expect(frames.isEmpty && decoder.refusal == nil)
            #expect(decoder.unfinished == count)
        }
    }

    @Test("lengths of one byte are refused by name, with protocol error, at every split")
    func oneByteLengths() {
        let refusal = refusal(of: BinaryVector.oneByteLengths)
        #expect(refusal?.fault == .oneByteLengths)
        #expect(refusal?.answer == BinaryErrorPacket(.protocolError, identifier: 0))
        #expect(refusal?.fault.description.contains("one byte") == true)
    }

    @Test("the largest frame of each command has Apple's sizes, and one byte more is refused")
    func limits() throws {
        let token = try #require(DeviceToken(FeedbackVector.ascending))
        let all = BinaryFrame.Fields.framed(
            identifier: 1, expiration: .once, priority: .immediate)
        let enhanced = BinaryFrame.Fields.enhanced(identifier: 1, expiration: .once)
        for (fields, limit, size) in [(.simple, 256, 293), (enhanced, 256, 301), (all, 2048, 2109)]
        {
            let payload = [UInt8](repeating: 0x20, count: limit)
            let frame = try BinaryFrame(fields, token: token, payload: payload)
            var bytes: [UInt8] = []
            frame.encode(into: &bytes)
            #expect(bytes.count == size)
            #expect(decode([bytes[...]]).0 == [frame])
            #expect(throws: BinaryFault.payloadTooLarge(bytes: limit + 1, limit: limit)) {
                try BinaryFrame(fields, token: token, payload: payload + [0x20])
            }
        }
        let long = try #require(DeviceToken([UInt8](repeating: 1, count: 100)))
        let largest = try BinaryFrame(
            all, token: long, payload: [UInt8](repeating: 0x20, count: 2048))
        #expect(largest.encodedLength == BinaryFrame.longest)
        let longer = try #require(DeviceToken([UInt8](repeating: 1, count: 101)))
        #expect(throws: BinaryFault.tokenTooLong(bytes: 101)) {
            try BinaryFrame(all, token: longer, payload: BinaryVector.payload)
        }
        #expect(throws: BinaryFault.missingPayload) {
            try BinaryFrame(all, token: token, payload: [])
        }
        #expect(throws: BinaryFault.unknownPriority(1)) {
            try BinaryFrame(
                .framed(identifier: nil, expiration: nil, priority: .lowest), token: token,
                payload: BinaryVector.payload)
        }
    }

    @Test("a wrong length in commands 0 and 1 is refused with its status and the identifier")
    func wrongBodies() {
        let enhanced: [UInt8] = [1, 0, 0, 0, 9, 0, 0, 0, 0]
        let token = [0, 32] + FeedbackVector.ascending
        let cases: [([UInt8], BinaryFault)] = [
            ([0, 0, 0, 0], .missingToken), ([0, 101, 1], .tokenTooLong(bytes: 101)),
            ([255, 255], .tokenTooLong(bytes: 65_535)), (token + [0, 0], .missingPayload),
            (token + [1, 1, 0x20], .payloadTooLarge(bytes: 257, limit: 256)),
        ]
        for (bytes, fault) in cases {
            let simple = refusal(of: [0] + bytes)
            #expect(simple?.fault == fault)
            #expect(simple?.answer == nil, "command 0 has no error packet")
            let named = refusal(of: enhanced + bytes)
            #expect(named?.fault == fault)
            #expect(named?.answer == BinaryErrorPacket(fault.status, identifier: 9))
        }
    }

    @Test("a wrong item of command 2 is refused with its status and the identifier behind it")
    func wrongItems() {
        let cases: [([(UInt8, [UInt8])], BinaryFault, BinaryStatus)] = [
            ([payload], .missingToken, .missingToken), ([token], .missingPayload, .missingPayload),
            ([], .missingToken, .missingToken), ([(1, []), payload], .missingToken, .missingToken),
            ([token, (2, [])], .missingPayload, .missingPayload),
            (
                [(1, .init(repeating: 1, count: 101)), payload], .tokenTooLong(bytes: 101),
                .invalidTokenSize
            ),
            (
                [token, (2, .init(repeating: 32, count: 2049))],
                .payloadTooLarge(bytes: 2049, limit: 2048), .invalidPayloadSize
            ),
            ([token, payload, token], .repeatedItem(.token), .protocolError),
            (
                [token, payload, (3, [0, 0, 1])], .itemLength(.identifier, bytes: 3), .protocolError
            ),
            ([token, payload, (4, [0])], .itemLength(.expiration, bytes: 1), .protocolError),
            ([token, payload, (5, [0, 10])], .itemLength(.priority, bytes: 2), .protocolError),
            ([token, payload, (5, [1])], .unknownPriority(1), .protocolError),
            ([token, payload, (5, [7])], .unknownPriority(7), .protocolError),
        ]
        for (items, fault, status) in cases {
            let refusal = refusal(of: framed(items + [identifier]))
            #expect(refusal?.fault == fault)
            #expect(refusal?.answer == BinaryErrorPacket(status, identifier: 7))
            #expect(refusal?.description.contains("identifier 7") == true)
        }
    }

    @Test("an unknown item is refused by its number, and the identifier before it is kept")
    func unknownItems() {
        for number in [UInt8(0), 6, 255] {
            let refusal = refusal(of: framed([identifier, token, (number, [1]), payload]))
            #expect(refusal?.fault == .unknownItem(number))
            #expect(refusal?.answer == BinaryErrorPacket(.protocolError, identifier: 7))
            #expect(refusal?.description.contains("item \(number)") == true)
        }
    }

    @Test("a frame that is no frame is refused: command, length, cut items")
    func noFrames() {
        #expect(refusal(of: [3])?.fault == .unknownCommand(3))
        #expect(
            refusal(of: [2, 0xFF, 0xFF, 0xFF, 0xFF])?.fault == .frameTooLong(bytes: 4_294_967_295))
        #expect(refusal(of: [2, 0, 0, 0, 2, 3, 0])?.fault == .itemHeaderCut(bytes: 2))
        #expect(
            refusal(of: [2, 0, 0, 0, 5, 1, 0, 3, 1, 1])?.fault
                == .itemBeyondFrame(.token, announced: 3, left: 2))
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
        let expiration = NotificationExpiration(headerValue: number(time))
        let fields: BinaryFrame.Fields
        let bytes: [UInt8]
        switch command {
        case .simple: (fields, bytes) = (.simple, [0] + sized(token) + sized(payload))
        case .enhanced:
            fields = .enhanced(identifier: number(id), expiration: expiration)
            bytes = [1] + id + time + sized(token) + sized(payload)
        case .framed:
            let has = (0..<3).map { _ in Bool.random(using: &random) }
            fields = .framed(
                identifier: has[0] ? number(id) : nil, expiration: has[1] ? expiration : nil,
                priority: has[2] ? urgency : nil)
            var items: [(UInt8, [UInt8])] = [(1, token), (2, payload)]
            if has[0] { items.append((3, id)) }
            if has[1] { items.append((4, time)) }
            if has[2] { items.append((5, [urgency.rawValue])) }
            bytes = framed(items.shuffled(using: &random))
        }
        let frame = try BinaryFrame(
            fields, token: try #require(DeviceToken(token)), payload: payload)
        // The encoder writes items in the order of their numbers: the same bytes in another order.
        var encoded: [UInt8] = []
        frame.encode(into: &encoded)
        #expect(encoded.count == bytes.count)
        #expect(decode([encoded[...]]).0 == [frame], "seed \(random.seed)")
        return (bytes, frame)
    }
}
