import TestSupport

/// Changes an input a little, as libFuzzer does but without looking at the code.
enum Mutation {
    private static let edges: [[UInt8]] = [
        [0], [0x7F], [0x80], [0xFF], [0, 0], [0, 32], [1, 0], [1, 1], [0xFF, 0xFF],
        [0x7F, 0xFF, 0xFF, 0xFF], [0x80, 0, 0, 0], [0xFF, 0xFF, 0xFF, 0xFF],
        Array("9223372036854775808".utf8), Array("\\u00".utf8), Array("\"".utf8), Array("{".utf8),
        Array("}".utf8), Array(": ".utf8), Array("\n".utf8), Array(" ".utf8), Array("-".utf8),
    ]

    /// Changes `bytes` one to six times; pieces may come from `others`.
    static func mutate(
        _ bytes: [UInt8], with others: [[UInt8]], _ random: inout SeededGenerator
    ) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...6, using: &random) {
            let start = Int.random(in: 0...bytes.count, using: &random)
            let end = min(bytes.count, start + Int.random(in: 0...16, using: &random))
            switch Int.random(in: 0..<7, using: &random) {
            case 0 where start < bytes.count:
                bytes[start] = UInt8.random(in: 0...255, using: &random)
            case 1 where start < bytes.count:
                bytes[start] ^= 1 << UInt8.random(in: 0...7, using: &random)
            case 2: bytes.removeSubrange(start..<end)
            case 3: bytes.insert(contentsOf: bytes[start..<end], at: start)
            case 4: bytes.insert(contentsOf: edges.randomElement(using: &random) ?? [], at: start)
            case 5: bytes.insert(contentsOf: random.bytes(end - start), at: start)
            default:
                guard let other = others.randomElement(using: &random), !other.isEmpty else {
                    break
                }
                let from = Int.random(in: 0..<other.count, using: &random)
                bytes.replaceSubrange(start..., with: other[from...])
            }
        }
        return bytes
    }
}
