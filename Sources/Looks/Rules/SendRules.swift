import Findings
import Operations

extension RuleBook {
    /// The share above which a loss is not small, and the one from which most of a send is lost.
    private static let (someShare, mostShare) = (0.01, 0.5)

    /// The tokens of a send. Rules that an audit asks too are about the same in the rows of the table.
    static let send: [Rule] = [
        .one("no-tokens", .send, in: [.preflight], needs: \.send, judge: noTokens),
        .one("no-living-tokens", .send, in: [.preflight], needs: \.send, judge: noLivingTokens),
        .one("stale-tokens", .send, in: [.preflight], needs: \.send, judge: staleTokens),
        .one("unknown-tokens", .send, in: [.preflight], needs: \.send, judge: unknownTokens),
        .one(
            "other-environment-tokens", .send, in: [.preflight],
            needs: \.send, judge: otherEnvironmentTokens),
        .each(
            "malformed-tokens", .send, in: [.audit, .preflight],
            needs: \.self, judge: malformedTokens),
        .each(
            "duplicate-tokens", .send, in: [.audit, .preflight],
            needs: \.self, judge: duplicateTokens),
        .one(
            "uncounted-duplicates", .send, in: [.preflight],
            needs: \.send, judge: uncountedDuplicates),
    ]

    private static func noTokens(_ send: SendFacts, _: Facts) -> Finding? {
        guard send.tokens?.read == 0 else { return nil }
        return Finding(
            .note, send.object, "there is no token to send to",
            cure: "check the queue or the list, unless nothing is to be sent")
    }

    /// Dead, unknown and malformed tokens may each be below their limit, and all tokens together.
    private static func noLivingTokens(_ send: SendFacts, _: Facts) -> Finding? {
        guard send.tokens?.living == 0, let all = send.share(\.read) else { return nil }
        return send.finding(
            .high, all, "lead to no living row, so nothing would arrive",
            cure: "check that the list, the app, its environment and store.url belong together")
    }

    private static func staleTokens(_ send: SendFacts, _: Facts) -> Finding? {
        guard let stale = send.share(\.stale) else { return nil }
        return send.finding(
            stale.value > send.mostStale ? .high : .note, stale, "are stale",
            cure: "leave them out, for example with preflight --filter")
    }

    private static func unknownTokens(_ send: SendFacts, _: Facts) -> Finding? {
        guard let unknown = send.share(\.unknown) else { return nil }
        return send.finding(
            unknown.value > mostShare ? .high : unknown.value > send.mostStale ? .medium : .note,
            unknown, "have no row in the token table",
            cure: "check that the list and store.url belong together; preflight --filter "
                + "--only-known leaves them out")
    }

    private static func otherEnvironmentTokens(_ send: SendFacts, _: Facts) -> Finding? {
        guard let others = send.share(\.otherEnvironment) else { return nil }
        return send.finding(
            others.value > someShare ? .high : .medium, others,
            "are registered in the other environment only",
            cure: "send them with the app of that environment, or correct apps[].environment")
    }

    // MARK: Tokens of a send, or of the rows

    private static func malformedTokens(_ facts: Facts, _: Facts) -> [Finding] {
        guard let send = facts.send else {
            return facts.report?.apps.compactMap(malformedRows) ?? []
        }
        guard let malformed = send.share(\.malformed) else { return [] }
        let share = malformed.value
        return [
            send.finding(
                share > mostShare ? .high : share > someShare ? .medium : .low, malformed,
                "are not device tokens",
                cure: "correct the list, or the rows of the queue, where a column of bytes takes "
                    + "UNHEX() of hex text; preflight --filter leaves them out")
        ]
    }

    private static func malformedRows(_ app: AuditedApp) -> Finding? {
        let tokens = app.tokens
        guard tokens.rows > 0 else { return nil }
        guard tokens.malformed > 0 else {
            return Finding(.ok, app.object, "every token is well formed")
        }
        let cut = tokens.truncated
        return Finding(
            .low, app.object,
            "\(tokens.malformed.counting("row", "holds", "hold")) no token that can be found"
                + (cut > 0 ? ", \(cut) of them a shortened description" : ""),
            cause: "no evidence matches them, and a send to them fails",
            cure: "pushsweep check prints the statement that rewrites other spellings")
    }

    private static func duplicateTokens(_ facts: Facts, _: Facts) -> [Finding] {
        guard let send = facts.send else {
            return facts.report?.apps.compactMap(duplicateRows) ?? []
        }
        guard let duplicate = send.share(\.duplicate) else { return [] }
        return [
            send.finding(
                duplicate.value > someShare ? .medium : .low, duplicate, "occur more than once",
                cure: "send to each token once, else its user gets several notifications")
        ]
    }

    private static func duplicateRows(_ app: AuditedApp) -> Finding? {
        guard let rows = app.deep?.duplicateRows, rows > 0 else { return nil }
        return Finding(
            .low, app.object, "\(rows.counting("row", "repeats", "repeat")) a token",
            cure: "make the token unique in the table")
    }

    private static func uncountedDuplicates(_ send: SendFacts, _: Facts) -> Finding? {
        guard send.missesDuplicates else { return nil }
        return Finding(
            .note, send.object,
            "the memory for finding duplicates was used up, so some are not counted",
            cure: "raise --memory")
    }
}

/// A part of the tokens of a send.
private struct TokenShare {
    let count, all: Int

    /// From 0 to 1.
    var value: Double { Double(count) / Double(all) }
}

extension SendFacts {
    /// A part of the tokens; nil where none belongs to it, or the tokens are not known.
    fileprivate func share(_ part: KeyPath<TokenCounts, Int>) -> TokenShare? {
        guard let tokens, tokens[keyPath: part] > 0 else { return nil }
        return TokenShare(count: tokens[keyPath: part], all: tokens.read)
    }

    /// Says how many tokens of the send a sentence is true of.
    fileprivate func finding(
        _ severity: Severity, _ share: TokenShare, _ sentence: String, cure: String
    ) -> Finding {
        let tenths = Int((share.value * 1_000).rounded(.up))
        return Finding(
            severity, object,
            "\(share.count) of \(share.all) tokens (\(tenths / 10).\(tenths % 10) %) \(sentence)",
            cure: cure)
    }
}
