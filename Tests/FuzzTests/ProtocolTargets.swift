import APNsProtocol
import Foundation

extension FuzzTarget {
    /// A feedback list. The first byte chooses where the rest is split.
    static let feedback = FuzzTarget(name: "feedback", mutations: 5_000, longest: 2_048) { input in
        let bytes = Array(input.dropFirst())
        let (tuples, decoder) = decode([bytes])
        let (pieced, other) = decode(pieces(of: bytes, by: input.first ?? 0))
        try promise(pieced == tuples, "another split gave other tuples")
        try promise(other.ending == decoder.ending, "another split ended otherwise")
        try promise(other.wholeTupleBytes == decoder.wholeTupleBytes, "another split, other bytes")

        var encoded: [UInt8] = []
        for tuple in tuples { tuple.encode(into: &encoded) }
        try promise(
            encoded.elementsEqual(bytes.prefix(encoded.count)), "the tuples are not what was read")
        try promise(
            encoded.count == decoder.wholeTupleBytes && decoder.bytesSeen == bytes.count,
            "bytes are not accounted for")
        let rest = bytes.count - encoded.count
        let isAccounted =
            switch decoder.ending {
            case .clean: rest == 0
            case .truncatedHeader(let present): rest == present && present < 6
            case .truncatedToken(let present, let announced):
                rest == 6 + present && present < announced
            case .outOfStep(let offset, let announced):
                offset == encoded.count && rest >= 6 + announced
                    && announced > FeedbackDecoder.longestToken
            }
        try promise(isAccounted, "\(rest) bytes are left, but the feed ended \(decoder.ending)")
    }

    private static func decode(_ pieces: [[UInt8]]) -> ([FeedbackTuple], FeedbackDecoder) {
        var decoder = FeedbackDecoder()
        var tuples: [FeedbackTuple] = []
        for piece in pieces { decoder.decode(piece, into: &tuples) }
        return (tuples, decoder)
    }

    /// Cuts bytes into pieces of 0 to 40 whose sizes follow from the choice; 0 is byte by byte.
    static func pieces(of bytes: [UInt8], by choice: UInt8) -> [[UInt8]] {
        guard choice > 0 else { return bytes.map { [$0] } }
        var state = UInt32(choice)
        var pieces: [[UInt8]] = []
        var start = 0
        while start < bytes.count {
            state = state &* 1_664_525 &+ 1_013_904_223
            let end = min(bytes.count, start + Int(state >> 24) % 41)
            pieces.append(Array(bytes[start..<end]))
            start = end
        }
        return pieces
    }

    /// The stored spelling of a token, and the same bytes as a token.
    static let token = FuzzTarget(name: "token", mutations: 5_000, longest: 1_024) { input in
        if let raw = DeviceToken(input) {
            try promise(raw.bytes == input, "a token is not its bytes")
            try promise(
                try DeviceToken(spelling: raw.hex) == raw
                    && DeviceToken(spelling: raw.hex.uppercased()) == raw,
                "a token is not what its spelling says")
            try promise(
                "\(raw)".utf8.count <= 8 + "…".utf8.count, "a token printed more than 8 digits")
        } else {
            try promise(input.isEmpty, "bytes are no token")
        }
        guard let read = try? DeviceToken(spelling: input) else { return }
        let digits = input.filter { !Array(" <>".utf8).contains($0) }
        try promise(
            read.hex == String(decoding: digits, as: UTF8.self).lowercased(),
            "a token was made of other digits than those of the text")
    }

    /// The body of an answer. Foundation's reader confirms that it contains the time.
    static let body = FuzzTarget(name: "body", mutations: 5_000, longest: 1_024) { input in
        let body = AnswerBody(input)
        guard let time = body.timestamp else { return }
        try promise(time >= AnswerBody.leastMilliseconds, "\(time) cannot be milliseconds")
        try promise(
            String(decoding: input, as: UTF8.self).contains("\(time)"),
            "\(time) does not stand in the body")
        // Only our reader accepts invalid UTF-8 inside a string that it does not need.
        guard let object = try? JSONSerialization.jsonObject(with: Data(input)) else { return }
        let other = (object as? [String: Any])?["timestamp"] as? NSNumber
        try promise(other?.int64Value == time, "another reader takes another time from the body")
    }
}
