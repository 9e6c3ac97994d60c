import Database
import Findings
import TokenHygiene

/// Checks a resolved layout for conditions that lose signals or have unexpected effects.
struct LayoutExamination {
    let layout: TableLayout
    let table: CatalogTable
    let mapping: TableMapping
    let need: TableUse

    var findings: [Finding] {
        [layoutSummary]
            + [
                marksBeside, unnamedMark, exchangedEnvironments, tokenIndex, tokenRoom,
                tokenPadding, keyRoom, reasonType,
                reasonRoom, registration, vectors, company,
            ].compactMap { $0 }
    }

    private var marksBeside: Finding? {
        layout.marksStandBeside ? .ok(MarksBeside.sentence) : nil
    }

    /// Of the default names both columns are ours, as `schema apply` makes them; one without the other may be
    /// the application's, such as the end of a session. The default is documented, so a run goes on.
    private var unnamedMark: Finding? {
        guard let mark = layout.mark, let usual = TableMapping().invalidatedAt.column.name,
            let reason = TableMapping().reason.name
        else { return nil }
        let (column, setting): (String, String)
        if case .detect = mapping.invalidatedAt.column, table.column(reason) == nil {
            (column, setting) = (mark.name, "invalidated-at")
        } else if case .detect = mapping.reason, let found = layout.reason,
            mark.name.lowercased() != usual
        {
            (column, setting) = (found, "reason")
        } else {
            return nil
        }
        return .warning(
            "mark-column-in-doubt",
            "column \(column) of \(layout.table) has a default name, and no setting names it: marks are "
                + "written into it, though it may be the application's own; write \(setting): "
                + "\(column) under store.active-users if it is for marks, or \(setting): none")
    }

    private var layoutSummary: Finding {
        let key = layout.key.map(\.name).joined(separator: ", ")
        var parts = [
            "key \(key)", "token \(layout.token.name) (\(layout.token.encoding.rawValue))",
            "app \(layout.app?.name ?? "none")",
            "environment \(layout.environment?.name ?? "none")",
            "registered \(layout.registration?.name ?? "unknown")",
        ]
        if let platform = layout.platform {
            parts.insert(
                "platform \(platform.column.name), only rows with `\(platform.word)`", at: 4)
        }
        if let living = layout.living {
            parts.append(
                "mark \(living.name) (living `\(mapping.living.living ?? "")`, dead "
                    + "`\(mapping.living.dead ?? "")`), its time in pushsweep_invalid")
        } else {
            parts.append("mark \(layout.mark?.name ?? "in pushsweep_invalid")")
        }
        return .ok("table \(layout.table): \(parts.joined(separator: ", "))")
    }

    /// Words of the environment that mean the other one.
    private var exchangedEnvironments: Finding? {
        guard let column = layout.environment else { return nil }
        let words = mapping.environmentValues
        let (production, sandbox) = (
            words["production"] ?? "production", words["sandbox"] ?? "sandbox"
        )
        let isExchanged =
            ValueWords.means(production, ValueWords.sandbox)
            || ValueWords.means(sandbox, ValueWords.production)
        if isExchanged {
            return .failure(
                .configuration,
                "environment.values of store.active-users calls `\(production.prefix(64))` production and "
                    + "`\(sandbox.prefix(64))` sandbox in column \(column.name) of \(layout.table): they are "
                    + "exchanged, and a token that is sent to the other server of APNs looks dead; write each "
                    + "under its own name")
        }
        let name = ColumnWords(column.name)
        guard name.tellsEnvironment, let flag = ValueWords.flag(production),
            name.isSandboxFlag && flag || name.isProductionFlag && !flag
        else { return nil }
        return .warning(
            "environment-values-in-doubt",
            "environment.values of store.active-users calls `\(production)` production in column "
                + "\(column.name) of \(layout.table), whose name says the opposite: a token that is sent to the "
                + "other server of APNs looks dead")
    }

    private var tokenIndex: Finding? {
        if layout.tokenIndex != nil { return nil }
        return .warning(
            "no-index",
            "column \(layout.token.name) of \(layout.table) has no index, so every lookup reads "
                + "the whole table; `pushsweep schema apply --upgrade` adds one")
    }

    private var tokenRoom: Finding? {
        guard let column = table.column(layout.token.name), let length = column.length else {
            return nil
        }
        let bytes = layout.token.encoding == .hex ? length / 2 : length
        guard bytes < mapping.longestToken else { return nil }
        return .warning(
            "narrow-column",
            "column \(layout.token.name) of \(layout.table) has room for tokens of \(bytes) bytes, "
                + "and tokens may have \(mapping.longestToken): longer ones are refused or cut off "
                + "when they register, and no evidence matches them; widen it (see `pushsweep schema "
                + "print`), or declare token: {longest: \(bytes)} under store.active-users")
    }

    /// BINARY(n) pads values with zero bytes, and a padded token equals no token.
    private var tokenPadding: Finding? {
        guard let column = table.column(layout.token.name), column.type == "binary",
            let length = column.length
        else { return nil }
        let bytes = layout.token.encoding == .hex ? length / 2 : length
        guard bytes > Self.usualToken else { return nil }
        return .warning(
            "narrow-column",
            "column \(layout.token.name) of \(layout.table) fills tokens shorter than \(bytes) bytes up "
                + "with zeros (BINARY), and no evidence matches those; tokens have \(Self.usualToken) "
                + "bytes today; make it VARBINARY and cut the zeros off")
    }

    /// Bytes of the tokens that Apple issues today.
    private static let usualToken = 32

    /// The ledger names rows by their key. Text without escapes takes its own length there, and
    /// bytes take twice theirs. A single longer key is refused when a change meets it.
    private var keyRoom: Finding? {
        let columns = layout.key.compactMap { table.column($0.name) }
        let longest = columns.reduce(2) { sum, column in
            guard !column.isInteger else { return sum + 21 }
            return sum + (column.isBinary ? 2 : 1) * (column.length ?? 0) + 11
        }
        guard longest > PushsweepTable.longestKey else { return nil }
        let names = columns.map(\.name).joined(separator: ", ")
        return .failure(
            .configuration,
            "the key \(names) of \(layout.table) takes up to \(longest) characters in the change ledger, "
                + "which has room for \(PushsweepTable.longestKey); name a shorter unique key under "
                + "store.active-users.key")
    }

    /// A removed row could not be put back as it was.
    private var vectors: Finding? {
        let columns = table.columns.filter { $0.type == "vector" }.map(\.name)
        guard need.removesRows, !columns.isEmpty else { return nil }
        return .failure(
            .configuration,
            "column \(columns.joined(separator: ", ")) of \(layout.table) has type VECTOR, whose values "
                + "cannot be kept byte by byte, so a removed row could not be restored; write policy: "
                + "{action: mark}")
    }

    /// What goes with a row that is removed.
    private var company: Finding? {
        let used = Set(layout.usedColumns.map { $0.lowercased() })
        let others = table.columns.map(\.name).filter { !used.contains($0.lowercased()) }
        guard need.removesRows, !others.isEmpty else { return nil }
        let personal = others.filter { ColumnWords($0).isOfPerson }
        let isOfPeople = ColumnWords(table.name.name).isOfPeople
        let shown = personal + others.filter { !personal.contains($0) }
        let list = shown.prefix(8).joined(separator: ", ") + (shown.count > 8 ? ", ..." : "")
        let sentence =
            "policy.action delete removes whole rows of \(layout.table): with the token go \(list)"
        guard isOfPeople || !personal.isEmpty else { return .ok(sentence) }
        return .warning(
            "whole-rows-removed",
            sentence + "; where such a row is more than a device, write policy: {action: mark}")
    }

    private var reasonType: Finding? {
        guard layout.mark != nil, layout.reason == nil, let name = mapping.reason.name,
            let column = table.column(name)
        else { return nil }
        return .warning(
            "mark-reason-not-stored",
            "column \(column.name) of \(layout.table) has type \(column.type), which cannot hold the "
                + "reason of a mark, so none is stored; make it VARCHAR(32), or leave reason out of "
                + "store.active-users")
    }

    private var reasonRoom: Finding? {
        guard let reason = layout.reason, let length = table.column(reason)?.length,
            let longest = EvidenceSource.ofMarks.map(\.rawValue.count).max(), length < longest
        else { return nil }
        return .failure(
            .configuration,
            "column \(reason) of \(layout.table) has room for \(length) characters, and reasons "
                + "have up to \(longest); widen it or leave reason out of store.active-users")
    }

    private var registration: Finding? {
        if layout.registration != nil {
            guard layout.registrationMovesItself else { return nil }
            return .warning(
                "registration-moves-too-often",
                "column \(layout.heldColumns.joined(separator: ", ")) of \(layout.table) moves at any write of "
                    + "a row (ON UPDATE CURRENT_TIMESTAMP), so each write by the application counts as a "
                    + "registration, and older reports about the device are ignored; changes by this program "
                    + "keep its value; name a column that only a registration writes, if there is one"
            )
        }
        let consequence =
            switch need {
            case .apply(let policy)
            where policy.action == .delete && policy.deletesWithoutRegistrationTime:
                "rows are deleted although their device may have come back"
            case .apply(let policy) where policy.action == .delete:
                "nothing is deleted, only marked"
            default:
                layout.lostReturn(under: mapping)
                    + (layout.living == nil
                        ? "" : ", and an undo cannot take marks in \(layout.markColumns[0]) back")
            }
        // A server shows an account only the columns that it has a right on.
        let isServer = table.engine != nil
        let cure =
            mapping.registeredAt.column == .absent
            ? "name one under store.active-users.registered-at"
            : "name a column that the application writes at each registration under "
                + "store.active-users.registered-at, or add one by `pushsweep schema apply --upgrade` and "
                + "the triggers of docs/registrations.md"
                + (isServer ? ", and `pushsweep check --grants` the right to see it" : "")
        return .warning(
            "no-registration-time",
            "\(layout.table) has no column for the time of registration"
                + (isServer ? " that the account may see" : "") + ": \(consequence); " + cure)
    }
}

// If no row has a partition's values, every signal about it becomes unknown without an error: the
// batch is read, and its evidence is lost. A word for a number column is detected without reading
// rows. A value with a different spelling is detected only in the rows.

extension TokenTable {
    /// Findings that forbid looking up the rows of some partitions.
    func partitionFindings(_ layout: TableLayout, _ partitions: [Partition]) -> [Finding] {
        var findings: [Finding] = []
        for partition in partitions {
            do {
                _ = try layout.selection(of: partition)
            } catch {
                let finding = Finding(error)
                if !findings.contains(finding) { findings.append(finding) }
            }
        }
        return findings
    }

    /// Warns about every app and environment that no row has. Each is checked by itself, because an
    /// app without sandbox rows is normal. Reads until the first row with the value, so it reads
    /// the whole table only where there is a warning.
    func absentValues(
        _ layout: TableLayout, _ partitions: [Partition]
    ) throws(StoreFailure) -> [Finding] {
        var findings: [Finding] = []
        if let app = layout.app {
            for word in Set(partitions.map(\.app)).sorted() {
                findings += try absence(of: word, in: app, "apps[].value", layout)
            }
        }
        if let environment = layout.environment {
            for word in Set(partitions.map(\.environment)).sorted() {
                findings += try absence(of: word, in: environment, "environment.values", layout)
            }
        }
        return findings
    }

    /// Refuses a platform that no row has: every signal would be unknown, and its evidence lost. Reads
    /// until the first row with the value, at most `most` rows where no index leads to it, because
    /// each run asks. A table without rows waits for its first device.
    func platformFindings(
        _ layout: TableLayout, most: Int = 200_000
    ) throws(StoreFailure) -> [Finding] {
        guard let platform = layout.platform else { return [] }
        let (dialect, column) = (connection.dialect, platform.column)
        let (table, name) = (layout.table.sql(dialect), dialect.quoted(column.name))
        let isIndexed = try catalogTable().indexes.contains {
            $0.columns.first?.lowercased() == column.name.lowercased()
        }
        let read =
            isIndexed
            ? "SELECT \(name) FROM \(table) WHERE \(name) = ?"
            : "SELECT \(name) FROM \(table) LIMIT \(most)"
        let (isFound, isWhole) = try retries.retrying(
            "looking for rows of \(layout.table) with `\(platform.word)`"
        ) { () throws(SQLFailure) in
            let found = try connection.query(
                "SELECT 1 FROM (\(read)) AS looked WHERE \(exactly(column)) LIMIT 1",
                (isIndexed ? [platform.value] : []) + [platform.value])
            func hasRow(_ place: Int) throws(SQLFailure) -> Bool {
                try connection.query("SELECT 1 FROM \(table) LIMIT 1 OFFSET \(place)").count > 0
            }
            if found.count > 0 { return (true, true) }
            guard try hasRow(0) else { return (true, true) }
            if isIndexed { return (false, true) }
            return (false, try !hasRow(most))
        }
        if isFound { return [] }
        let cure = "compare platform.value with the table"
        guard isWhole else {
            return [
                .warning(
                    "value-in-no-row",
                    "\(layout.table): none of the first \(most) rows, and none of a sample, has "
                        + "`\(platform.word)` in column \(column.name); if no row has it, every signal is "
                        + "lost, so \(cure), or add an index on the column")
            ]
        }
        return [
            .failure(
                .configuration,
                "\(layout.table): no row has `\(platform.word)` in column \(column.name), so no "
                    + "row is looked at and every signal would be lost; \(cure)",
                isAboutRows: true)
        ]
    }

    /// A condition on a column by equality of characters, as rows are judged, whatever the collation is.
    private func exactly(_ column: PartitionColumn) -> String {
        let name = connection.dialect.quoted(column.name)
        if column.isExact { return "\(name) = ?" }
        return connection.dialect.engine == .sqlite
            ? "\(name) = ? COLLATE BINARY"
            : "CONVERT(\(name) USING utf8mb4) COLLATE utf8mb4_bin = ?"
    }

    private func absence(
        of word: String, in column: PartitionColumn, _ setting: String,
        _ layout: TableLayout
    ) throws(StoreFailure) -> [Finding] {
        let dialect = connection.dialect
        let name = dialect.quoted(column.name)
        let value = try column.value(for: word)
        var sql = "SELECT 1 FROM \(layout.table.sql(dialect)) WHERE \(name) = ?"
        var values = [value]
        if !column.isExact {
            sql += " AND \(exactly(column))"
            values.append(value)
        }
        if let platform = layout.platform {
            let condition = platform.condition(dialect)
            sql += condition.sql
            values += condition.values
        }
        let rows = try retries.retrying(
            "looking for rows of \(layout.table) with `\(word)`",
            do: connection.query("\(sql) LIMIT 1", values))
        guard rows.count == 0 else { return [] }
        return [
            .warning(
                "value-in-no-row",
                "\(layout.table): no row has `\(value.text ?? value.integer.map(String.init) ?? "")` in "
                    + "column \(column.name), so every token of `\(word)` will be unknown; compare "
                    + "\(setting) with the table")
        ]
    }
}
