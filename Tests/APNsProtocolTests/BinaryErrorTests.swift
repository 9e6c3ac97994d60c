import APNsProtocol
import TestSupport
import Testing

@Suite("The error packet of the binary provider interface")
struct BinaryErrorTests {
    @Test("each vector says the same at every split in two and byte by byte, and is encoded so")
    func vectors() {
        for (name, bytes, answer) in BinaryVector.answers {
            for cut in 0...bytes.count {
                var decoder = BinaryErrorDecoder()
                decoder.decode(Array(bytes[..<cut]))
                decoder.decode(Array(bytes[cut...]))
                #expect(decoder.answer == answer, "\(name) cut at \(cut)")
            }
            var dripped = BinaryErrorDecoder()
            #expect(dripped.answer == .nothing)
            for (index, byte) in bytes.enumerated() {
                dripped.decode([byte])
                guard index < 5 else { continue }
                #expect(dripped.answer == .unfinished(bytes: index + 1))
            }
            #expect(dripped.answer == answer && dripped.excess == 0)
            guard case .packet(let packet) = answer else { continue }
            var encoded: [UInt8] = []
            packet.encode(into: &encoded)
            #expect(encoded == bytes, "\(name)")
        }
    }

    @Test("all 256 statuses keep their number, and the twelve of Apple have names")
    func statuses() {
        for number in UInt8.min...UInt8.max {
            #expect(BinaryStatus(number).number == number)
            #expect("\(BinaryStatus(number))".hasSuffix("(\(number))"))
        }
        #expect(
            BinaryStatus.listed.map(\.number) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 128, 255])
        #expect(!BinaryStatus.listed.contains(BinaryStatus(9)))
    }

    @Test("only status 10 accepts the named notification, and three are about its token")
    func meaning() {
        let all = (UInt8.min...UInt8.max).map { BinaryStatus($0) }
        #expect(all.filter(\.acceptsNamed) == [.shutdown])
        #expect(
            all.filter { $0.subject == .token } == [
                .missingToken, .invalidTokenSize, .invalidToken,
            ])
    }

    @Test("bytes after the packet are counted and dropped, and other bytes are no packet")
    func others() {
        var decoder = BinaryErrorDecoder()
        decoder.decode(BinaryVector.answers[0].bytes + [8, 8, 0, 0, 0, 2])
        decoder.decode([1])
        #expect(decoder.answer == BinaryVector.answers[0].answer)
        #expect(decoder.excess == 7)
        var web = BinaryErrorDecoder()
        web.decode(Array("HTTP/1.1 400 Bad Request".utf8))
        #expect(web.answer == .foreign(UInt8(ascii: "H")))
    }
}
