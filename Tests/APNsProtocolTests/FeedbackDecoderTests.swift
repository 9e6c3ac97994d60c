import APNsProtocol
import TestSupport
import Testing

@Suite("The feedback decoder")
struct FeedbackDecoderTests {
    private func decode(_ pieces: [ArraySlice<UInt8>]) -> ([FeedbackTuple], FeedbackDecoder) {
        var decoder = FeedbackDecoder()
        var tuples: [FeedbackTuple] = []
        for piece in pieces { decoder.decode(Array(piece), into: &tuples) }
        return (tuples, decoder)
    }

    private func expect(
        _ vector: FeedbackVector, in pieces: [ArraySlice<UInt8>],
        _ location: SourceLocation = #_sourceLocation
    ) {
        let (tuples, decoder) = decode(pieces)
        #expect(tuples == vector.tuples, sourceLocation: location)
        #expect(decoder.ending == vector.ending, sourceLocation: location)
        #expect(decoder.bytesSeen == vector.bytes.count, sourceLocation: location)
        #expect(
            decoder.wholeTupleBytes == tuples.reduce(0) { $0 + $1.encodedLength },
            sourceLocation: location)
    }

    @Test(
        "the decoder reads each vector byte by byte and at every split in two",
        arguments: FeedbackVector.all)
    func vectors(vector: FeedbackVector) {
        expect(vector, in: vector.bytes.indices.map { vector.bytes[$0...$0] })
        for cut in 0...vector.bytes.count {
            expect(vector, in: [vector.bytes[..<cut], vector.bytes[cut...]])
        }
    }

    @Test("the decoder reads the same tuples at 10,000 random splits of a mixed feed")
    func randomSplits() {
        var random = SeededGenerator("random splits")
        let tuples = (0..<40).map { index in
            FeedbackTuple(
                time: EpochSeconds(FeedbackVector.start + UInt32(index)),
                token: DeviceToken(random.bytes([0, 1, 31, 32, 33, 54, 80, 100, 256][index % 9])))
        }
        var bytes: [UInt8] = []
        for tuple in tuples { tuple.encode(into: &bytes) }
        for _ in 0..<10_000 {
            var pieces: [ArraySlice<UInt8>] = []
            var start = 0
            while start < bytes.count {
                let end = min(bytes.count, start + Int.random(in: 1...400, using: &random))
                pieces.append(bytes[start..<end])
                start = end
            }
            let (decoded, decoder) = decode(pieces)
            guard decoded == tuples, decoder.ending == .clean else {
                Issue.record("seed \(random.seed): split \(pieces.map(\.count)) changed the result")
                return
            }
        }
    }

    @Test("a length above 256 ends decoding if the feed continues after it, at any split")
    func impossibleLength() {
        let good = FeedbackVector.all[0]
        let lie = FeedbackVector.bytes("6553f1000101") + [UInt8](repeating: 7, count: 400)
        let bytes = good.bytes + lie
        for cut in stride(from: 0, through: bytes.count, by: 7) {
            let (tuples, decoder) = decode([bytes[..<cut], bytes[cut...]])
            #expect(tuples == good.tuples)
            #expect(decoder.ending == .outOfStep(offset: good.bytes.count, announced: 257))
            #expect(decoder.wholeTupleBytes == good.bytes.count)
        }
    }

    @Test("the decoder reads nothing after an impossible length, however plausible the bytes look")
    func noResynchronisation() {
        let lie = FeedbackVector.bytes("6553f1000200") + [UInt8](repeating: 1, count: 512)
        let (tuples, decoder) = decode([lie[...], FeedbackVector.all[0].bytes[...]])
        #expect(tuples.isEmpty)
        #expect(decoder.ending == .outOfStep(offset: 0, announced: 512))
        #expect(decoder.bytesSeen == lie.count + 38)
    }

    @Test("random bytes never trap, and the decoder accounts for every byte")
    func garbage() {
        var random = SeededGenerator("garbage feeds")
        for _ in 0..<2_000 {
            let bytes = random.bytes(Int.random(in: 0...2_000, using: &random))
            let (tuples, decoder) = decode([bytes[...]])
            let whole = tuples.reduce(0) { $0 + $1.encodedLength }
            #expect(whole == decoder.wholeTupleBytes)
            switch decoder.ending {
            case .clean: #expect(whole == bytes.count)
            case .truncatedHeader(let present): #expect(whole + present == bytes.count)
            case .truncatedToken(let present, let announced):
                #expect(whole + 6 + present == bytes.count)
                #expect(present < announced)
            case .outOfStep(let offset, let announced):
                #expect(offset == whole)
                #expect(bytes.count - whole - 6 >= announced)
            }
        }
    }
}
