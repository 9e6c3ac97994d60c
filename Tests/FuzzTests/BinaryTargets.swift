import APNsProtocol

extension FuzzTarget {
    /// Frames of the binary provider interface. The first byte chooses where the rest is split.
    static let frames = FuzzTarget(name: "frames", mutations: 5_000, longest: 4_096) { input in
        let bytes = Array(input.dropFirst())
        let (frames, decoder) = decodeFrames([bytes])
        let (pieced, other) = decodeFrames(pieces(of: bytes, by: input.first ?? 0))
        try promise(pieced == frames, "another split gave other frames")
        try promise(other.refusal == decoder.refusal, "another split, another refusal")
        try promise(other.unfinished == decoder.unfinished, "another split, another rest")
        try promise(
            other.wholeFrameBytes == decoder.wholeFrameBytes, "another split, other bytes")

        try promise(
            frames.reduce(0) { $0 + $1.encodedLength } == decoder.wholeFrameBytes
                && decoder.bytesSeen == bytes.count, "bytes are not accounted for")
        if let refusal = decoder.refusal {
            try promise(refusal.offset == decoder.wholeFrameBytes, "refused at another place")
            try promise(bytes[refusal.offset] == refusal.command, "refused another command")
            try promise(refusal.answer == nil || refusal.command != 0, "command 0 was answered")
        } else {
            try promise(
                decoder.unfinished == bytes.count - decoder.wholeFrameBytes,
                "an unfinished frame lost bytes")
        }
        for frame in frames {
            try promise(
                frame.token.count <= BinaryFrame.longestToken
                    && 1...frame.command.payloadLimit ~= frame.payload.count,
                "a frame above its limits was read")
            var encoded: [UInt8] = []
            frame.encode(into: &encoded)
            try promise(
                decodeFrames([encoded]).0 == [frame], "a frame is not what its own bytes say")
        }
    }

    private static func decodeFrames(
        _ pieces: [[UInt8]]
    ) -> ([BinaryFrame], BinaryFrameDecoder) {
        var decoder = BinaryFrameDecoder()
        var frames: [BinaryFrame] = []
        for piece in pieces { decoder.decode(piece, into: &frames) }
        return (frames, decoder)
    }

    /// The answer of a gateway of that interface. The first byte chooses where the rest is split.
    static let packet = FuzzTarget(name: "packet", mutations: 5_000, longest: 64) { input in
        let bytes = Array(input.dropFirst())
        var decoder = BinaryErrorDecoder()
        decoder.decode(bytes)
        var other = BinaryErrorDecoder()
        for piece in pieces(of: bytes, by: input.first ?? 0) { other.decode(piece) }
        try promise(
            other.answer == decoder.answer && other.excess == decoder.excess,
            "another split gave another answer")
        try promise(
            decoder.excess == max(0, bytes.count - BinaryErrorPacket.length),
            "bytes are not accounted for")
        switch decoder.answer {
        case .nothing: try promise(bytes.isEmpty, "bytes were nothing")
        case .foreign(let first):
            try promise(bytes.first == first && first != 8, "a packet was taken for foreign")
        case .unfinished(let count):
            try promise(count == bytes.count && count < 6, "an unfinished packet has other bytes")
        case .packet(let packet):
            var encoded: [UInt8] = []
            packet.encode(into: &encoded)
            try promise(
                encoded.elementsEqual(bytes.prefix(6)), "a packet is not what was read")
        }
    }
}
