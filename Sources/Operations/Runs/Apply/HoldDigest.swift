import APNsProtocol
import SecureTransport
import TokenHygiene
import TokenTable

/// Computes the digest of a hold: what a release would do, then for each batch every token in order,
/// with the latest time at which it was reported dead.
struct HoldDigest {
    private static let tokensPerBatch = 1_000

    private let digest: SHA256Digest
    /// The digest of what a release would do, whatever the evidence.
    let heading: String

    /// Begins with app, environment, policy, and the store's `terms` for them.
    init(_ partition: Partition, _ policy: RemovalPolicy, terms: [String]) throws {
        let heading =
            [
                "pushsweep hold 3", partition.app, partition.environment, policy.action.rawValue,
                policy.deletesAfter.map { "\($0)" } ?? "at once",
                "\(policy.deletesWithoutRegistrationTime)", "\(policy.skew)",
            ] + terms
        // Each part has its length in front, so that different headings never give the same bytes.
        let text = heading.map { "\($0.utf8.count):\($0)\n" }.joined() + "\n"
        digest = try SHA256Digest()
        try digest.update(Array(text.utf8))
        self.heading = try digest.hex()
    }

    /// Adds a batch. Returns the digest of all batches so far, in hex.
    func take(
        _ batch: ReportBatch, in store: TokenTable,
        _ body: (TokenEvidence) throws -> Void = { _ in }
    ) throws -> String {
        try digest.update(
            Array("\(batch.id) \(batch.inlet.rawValue) \(batch.source.rawValue)\n".utf8))
        var stream = StoredReports(of: batch.id, in: store)
        while case let page = try stream.next(Self.tokensPerBatch), !page.isEmpty {
            var bytes: [UInt8] = []
            for item in page {
                Self.append(item, to: &bytes)
                try body(item)
            }
            try digest.update(bytes)
        }
        // Times are positive, so no record begins with a byte of ones.
        try digest.update([0xFF])
        return try digest.hex()
    }

    /// Appends the time in milliseconds since 1970 and the token with its length, numbers with the first byte first.
    private static func append(_ item: TokenEvidence, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: item.time.rawValue.bigEndian) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: UInt16(clamping: item.token.count).bigEndian) {
            bytes.append(contentsOf: $0)
        }
        item.token.append(to: &bytes)
    }
}

/// The digest of a mapping: table, columns, and the values of an app. Reports that found no row under one are judged
/// again under another.
package enum MappingDigest {
    /// The digest for an app of the settings and the store's terms for it, 16 digits in hex.
    package static func of(_ partition: Partition, _ terms: [String]) throws -> String {
        let parts = ["pushsweep mapping 1", partition.app, partition.environment] + terms
        let digest = try SHA256Digest()
        try digest.update(Array(parts.map { "\($0.utf8.count):\($0)\n" }.joined().utf8))
        return String(try digest.hex().prefix(16))
    }
}
