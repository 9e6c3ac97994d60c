import APNsProtocol
import TokenHygiene

/// Evidence in memory, for a few tokens.
package struct EvidenceList: EvidenceStream {
    private var rest: ArraySlice<TokenEvidence>

    /// Orders evidence by token, keeps the latest time of each and adds up its statements. Leaves
    /// out tokens up to `position`.
    package init(_ evidence: [TokenEvidence], after position: DeviceToken? = nil) {
        var latest: [DeviceToken: TokenEvidence] = [:]
        for item in evidence where position.map({ item.token > $0 }) ?? true {
            let known = latest[item.token]
            latest[item.token] = TokenEvidence(
                token: item.token, time: max(item.time, known?.time ?? item.time),
                statements: item.statements + (known?.statements ?? 0))
        }
        rest = latest.values.sorted { $0.token < $1.token }[...]
    }

    /// The next tokens, at most `limit`.
    package mutating func next(_ limit: Int) -> [TokenEvidence] {
        defer { rest = rest.dropFirst(limit) }
        return Array(rest.prefix(limit))
    }
}

extension TokenEvidence {
    /// The same without the times of all statements but the latest.
    package var summed: TokenEvidence {
        TokenEvidence(token: token, time: time, statements: statements)
    }
}
