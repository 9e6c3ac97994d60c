import Findings
import Operations

extension RuleBook {
    /// The share above which a loss is not small, and the one from which most of a send is lost.
    private static let (someShare, mostShare) = (0.01, 0.5)

    /// The tokens of a send. Rules that an audit asks too are about the same in the rows of the table.
    static let send: [Rule] = [
        .one(
            "no-tokens", .send, in: [.preflight], "note",
            """
            There is no token to send to. The queue has no row that is due for this app, or the list is empty.
            Nothing would be sent. A query that failed can leave an empty list too.
            SELECT app_id, environment, COUNT(*) FROM push_queue WHERE answered_at IS NULL GROUP BY app_id, \
            environment;
            If something should be sent, correct the query or the program that fills the queue. See docs/preflight.md, \
            The tokens.
            """, needs: \.send
        ) { send, _ in
            guard send.tokens?.read == 0 else { return nil }
            return Finding(
                .note, send.object, "there is no token to send to",
                cure: "check the queue or the list, unless nothing is to be sent")
        },
        share(
            "no-living-tokens", "high",
            // Each share may be below its limit.
            of: { $0.living == 0 ? $0.read : 0 }, { _, _ in .high },
            """
            No token of the send leads to a living row of the app.
            Every notification would be wasted, and no device would get one.
            `pushsweep explain TOKEN` with one token of the send says what the table has and why it would not be sent \
            to.
            Make sure that the list, the app, its environment and `store.url` belong together.
            """,
            "lead to no living row, so nothing would arrive",
            cure: "check that the list, the app, its environment and store.url belong together"),
        share(
            "stale-tokens", "high above --max-stale (5 %), else note", of: \.stale,
            { $0 > $1 ? .high : .note },
            """
            Tokens of the send have a mark and no later registration.
            Their devices are gone, so these sends are wasted. `pushsweep send` skips them; another sender does not.
            `pushsweep explain TOKEN` tells why one of them is marked.
            Leave them out: `pushsweep preflight --filter --app NAME < FILE`, or give the sender the condition of \
            docs/tables.md.
            """,
            "are stale", cure: "leave them out, for example with preflight --filter"),
        share(
            "unknown-tokens", "high above 50 %, medium above --max-stale, else note", of: \.unknown,
            { $0 > mostShare ? .high : $0 > $1 ? .medium : .note },
            """
            Tokens of the send have no row in the token table.
            Nobody knows whether these devices exist. Many of them mean that the list is of another app or database.
            `pushsweep explain TOKEN` with one of them says what is known about it.
            Make sure that the list and `store.url` belong together. `pushsweep preflight --filter --only-known --app \
            NAME < FILE` leaves them out.
            """,
            "have no row in the token table",
            cure: "check that the list and store.url belong together; preflight --filter "
                + "--only-known leaves them out"),
        share(
            "other-environment-tokens", "high above 1 %, else medium", of: \.otherEnvironment,
            { share, _ in share > someShare ? .high : .medium },
            """
            Tokens of the send are registered in the other environment only.
            APNs calls them bad, the devices get nothing, and many of them stop the sending.
            `pushsweep explain TOKEN` shows the environment in which one of them registered.
            Send to them with the app of that environment, or correct `apps[].environment` or the rows.
            """,
            "are registered in the other environment only",
            cure: "send them with the app of that environment, or correct apps[].environment"),
        share(
            "malformed-tokens",
            "of a send high above 50 %, medium above 1 %, else low; of rows low",
            of: \.malformed,
            { share, _ in share > mostShare ? .high : share > someShare ? .medium : .low },
            """
            Rows of the table, or tokens of the send, are no device tokens, or have a form that no search finds.
            A send to them fails, and the device gets nothing. No report matches such a row.
            `pushsweep check` counts the forms in a sample. `pushsweep preflight --filter --app NAME < FILE` leaves \
            such lines out.
            Run the statement that `pushsweep check` prints for another spelling, or correct the list. See \
            docs/tables.md.
            """,
            "are not device tokens",
            cure:
                "correct the list, or the rows of the queue, where a column of bytes takes UNHEX() of hex text; "
                + "preflight --filter leaves them out"
        ) { app in
            let tokens = app.tokens
            guard tokens.rows > 0 else { return nil }
            guard tokens.malformed > 0 else {
                return Finding(.ok, app.object, "every token is well formed")
            }
            return Finding(
                .low, app.object,
                "\(tokens.malformed.counting("row", "holds", "hold")) no token that can be found"
                    + (tokens.truncated > 0
                        ? ", \(tokens.truncated) of them a shortened description" : ""),
                cause: "no evidence matches them, and a send to them fails",
                cure: "pushsweep check prints the statement that rewrites other spellings")
        },
        share(
            "duplicate-tokens", "of a send medium above 1 %, else low; of rows low",
            of: \.duplicate,
            { share, _ in share > someShare ? .medium : .low },
            """
            Rows of the table repeat a token, or a token stands more than once in the tokens of a send.
            The device gets the same notification several times, and each copy costs a request.
            SELECT device_token, COUNT(*) FROM active_users GROUP BY device_token HAVING COUNT(*) > 1; for a list: \
            `sort FILE | uniq -d`.
            Make the token unique for app and environment in the table. Write each token once into a list.
            """,
            "occur more than once",
            cure: "send to each token once, else its user gets several notifications"
        ) { app in
            guard let rows = app.deep?.duplicateRows, rows > 0 else { return nil }
            return Finding(
                .low, app.object, "\(rows.counting("row", "repeats", "repeat")) a token",
                cure: "make the token unique in the table")
        },
        .one(
            "uncounted-duplicates", .send, in: [.preflight], "note",
            """
            The memory for finding duplicates was used up, so some of them are not counted.
            The number of duplicates is too small. Devices may get a notification several times.
            `pushsweep preflight --app NAME --tokens-from FILE --memory 1024` looks again with more MiB of memory.
            Raise `--memory`, or sort the list and remove duplicates before: `sort -u FILE`.
            """, needs: \.send
        ) { send, _ in
            guard send.missesDuplicates else { return nil }
            return Finding(
                .note, send.object,
                "the memory for finding duplicates was used up, so some are not counted",
                cure: "raise --memory")
        },
    ]

    /// A rule about a part of the tokens. `severity` gets the part's share of all tokens, and the largest
    /// share of stale ones that is no reason to stop. `rows` judges the same in the rows of an app.
    private static func share(
        _ name: String, _ weight: String, of part: @escaping @Sendable (TokenCounts) -> Int,
        _ severity: @escaping @Sendable (Double, Double) -> Severity, _ text: String,
        _ what: String, cure: String, rows: (@Sendable (AuditedApp) -> Finding?)? = nil
    ) -> Rule {
        .each(
            name, .send, in: rows == nil ? [.preflight] : [.audit, .preflight], weight, text,
            needs: { $0 }
        ) { facts, _ in
            guard let send = facts.send else {
                return rows.flatMap { facts.report?.apps.compactMap($0) } ?? []
            }
            guard let tokens = send.tokens, part(tokens) > 0 else { return [] }
            let count = part(tokens)
            let share = Double(count) / Double(tokens.read)
            let tenths = Int((share * 1_000).rounded(.up))
            return [
                Finding(
                    severity(share, send.mostStale), send.object,
                    "\(count) of \(tokens.read) tokens (\(tenths / 10).\(tenths % 10) %) \(what)",
                    cure: cure)
            ]
        }
    }
}
