import Encodings
import SecureTransport
import Settings

extension Settings {
    /// SHA-256 over all settings as `check` shows them, the first 16 hex digits; empty where it
    /// cannot be computed. Two reports with the same digest were made under the same settings, but
    /// for secrets, which are not part of it.
    var auditDigest: String {
        let lines = origins.map { "\($0.key)=\($0.shownValue)" }.sorted().joined(separator: "\n")
        guard let digest = try? SHA256Digest(), (try? digest.update(Array(lines.utf8))) != nil,
            let hex = try? digest.hex()
        else { return "" }
        return String(hex.prefix(16))
    }
}
