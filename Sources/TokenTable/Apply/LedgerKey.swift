import APNsProtocol
import Database

/// The key of a row as the ledger spells it. It may contain the row's whole token.
package struct LedgerKey: Hashable, Sendable {
    private let stored: String
    private let token: DeviceToken?

    /// A key that the ledger has, or that `RowImage` has spelled, with the row's token.
    init(_ stored: String, of token: DeviceToken?) {
        self.stored = stored
        self.token = token
    }

    /// The key: the bare number, else a JSON array. Without `wholeTokens` a value that is the row's
    /// token is shortened; so is every value of bytes in an entry without a token.
    package func text(wholeTokens: Bool) -> String {
        if wholeTokens { return stored }
        // A key that cannot be read may hold a token too.
        guard let values = RowImageReader.key(stored) else { return "" }
        if values.count == 1, case .integer = values[0] { return stored }
        return RowImage.key(values.map(shortened))
    }

    private func shortened(_ value: SQLValue) -> SQLValue {
        switch value {
        case .bytes(let bytes), .rawText(let bytes):
            if token.map({ $0.bytes == bytes }) ?? true {
                return .text(DeviceToken(bytes)?.redacted ?? "")
            }
            return shortened(spelled: String(validating: bytes, as: UTF8.self)) ?? value
        case .text(let text): return shortened(spelled: text) ?? value
        default: return value
        }
    }

    /// The shortened token where a text spells it.
    private func shortened(spelled text: String?) -> SQLValue? {
        if let text, let token, token.count > 4, text.lowercased().contains(token.hex) {
            return .text(text.lowercased().replacing(token.hex, with: token.redacted))
        }
        guard let text, let spelled = try? DeviceToken(spelling: text) else { return nil }
        // Without a token to compare with, hex text as long as one is taken for one.
        guard token == spelled || token == nil && spelled.count >= 32 else { return nil }
        return .text(spelled.redacted)
    }
}
