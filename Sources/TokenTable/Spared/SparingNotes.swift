import APNsProtocol
import Database
import TokenHygiene

/// Writes what a person said no to, in the transaction that does what he said.
struct SparingNotes {
    /// Days for which a no is remembered.
    static let days = 400

    let connection: any SQLConnection
    /// The run by which he said it.
    let run: String

    private var dialect: SQLDialect { connection.dialect }

    /// One no to evidence about a token.
    struct Note {
        let token: DeviceToken
        let partition: Partition
        /// The latest evidence that he did not want.
        let until: EpochMilliseconds
    }

    /// What a person did.
    enum Refusal {
        case undid
        case discarded
    }

    /// Notes that a person said no at a time. Of a token that has a note already the later times count.
    func add(
        _ notes: [Note], _ refusal: Refusal, at time: EpochMilliseconds
    ) throws(SQLFailure) {
        let column = dialect.ownTime("until_at")
        var latest: [DeviceToken: Note] = [:]
        for note in notes where note.token.count <= InvalidTokenTable.longestToken {
            guard let known = latest[note.token], known.until >= note.until else {
                latest[note.token] = note
                continue
            }
        }
        let said = refusal == .undid ? "undone_at" : "heard_until"
        for some in latest.values.sorted(by: { $0.token < $1.token })
            .runs(of: StatementShape.longestLinear)
        {
            let rows = StatementShape.padded(some)
            let sql = dialect.insertion(
                "pushsweep_spared", key: ["token"],
                columns: ["app", "environment", "until_at", said, "by_run"], rows: rows.count
            ) { present, inserted, name in
                guard name.hasSuffix("_at") || name == said else { return inserted(name) }
                let (old, new) = (present(name), inserted(name))
                return "CASE WHEN \(old) IS NULL OR \(old) < \(new) THEN \(new) ELSE \(old) END"
            }
            let values = rows.flatMap { note -> [SQLValue] in
                [
                    .bytes(note.token.bytes), .text(note.partition.app),
                    .text(note.partition.environment), column.value(note.until),
                    column.value(time), .text(run),
                ]
            }
            _ = try connection.execute(sql, values)
        }
    }

    /// Forgets that undos left the rows of some tokens living, because one made them dead again, each by evidence of a
    /// time. A no to later evidence stays.
    func clearUndo(of dead: [DeviceToken: EpochMilliseconds]) throws(SQLFailure) {
        try each(answered(dead)) { (which, values) throws(SQLFailure) in
            _ = try connection.execute(
                "DELETE FROM pushsweep_spared WHERE \(which) AND heard_until IS NULL", values)
            _ = try connection.execute(
                "UPDATE pushsweep_spared SET undone_at = NULL WHERE \(which)", values)
        }
    }

    /// Removes the notes of tokens that a person asked for at a time, whose rows are dead by it now, each by evidence of
    /// a time. A no to later evidence stays.
    func remove(
        _ dead: [DeviceToken: EpochMilliseconds], askedFor asked: EpochMilliseconds
    ) throws(SQLFailure) {
        let time = dialect.ownTime("heard_until").value(asked)
        try each(answered(dead)) { (which, values) throws(SQLFailure) in
            _ = try connection.execute(
                "DELETE FROM pushsweep_spared WHERE \(which) AND (heard_until IS NULL OR heard_until < ?)",
                values + [time])
        }
    }

    /// The tokens whose notes are about no later evidence.
    private func answered(
        _ dead: [DeviceToken: EpochMilliseconds]
    ) throws(SQLFailure) -> [DeviceToken] {
        let notes = try SparedTokens(connection: connection).notes(on: dead.keys.sorted())
        return notes.values.filter { note in dead[note.token].map { note.until <= $0 } ?? false }
            .map(\.token)
    }

    private func each(
        _ tokens: some Collection<DeviceToken>,
        _ body: (_ which: String, [SQLValue]) throws(SQLFailure) -> Void
    ) throws(SQLFailure) {
        for some in tokens.sorted().map({ SQLValue.bytes($0.bytes) })
            .runs(of: StatementShape.longest)
        {
            let padded = StatementShape.padded(some)
            try body("token IN (\(placeholders(padded.count)))", padded)
        }
    }
}
