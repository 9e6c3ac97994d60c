import Database
import Encodings

// A removed row is restored exactly as in its image, or not at all. The insert is strict, so that
// values are not shortened silently. The inserted rows are read again once all of a chunk are there, because a
// server's trigger may have written other values; one of SQLite may write other rows as well, so no row comes back
// there beside a trigger of others. A strict insert may refuse a value that the table held (the error value of
// an ENUM). Such a row is inserted once more without strictness, and stays if it reads back the
// same. A row that differs is removed again and counts as refused. Generated columns are not inserted,
// but compared: the table as it is now may compute another value than the image has.
//
// Rows of one table may refer to one another, and a row comes after the one that it refers to. A row that is
// refused for that is tried again after the others. In SQLite rows that refer to one another in a circle come
// back together, since keys are checked at the end there.

/// Inserts removed rows again, as in their images.
struct RowInsertion {
    /// Reads whole rows, to compare them with the images.
    let lookup: RowLookup
    let isolation: RowIsolation

    private var layout: TableLayout { lookup.layout }
    private var connection: any SQLConnection { lookup.connection }
    private var dialect: SQLDialect { lookup.dialect }

    /// The most bytes of values in one statement, far below the 1 MiB that every server accepts.
    private static let mostBytes = 256 * 1_024
    /// Row counts of the statements; a batch is split into these lengths.
    private static let lengths = [100, 10, 1]
    /// The most values in one statement; every server accepts them.
    private static let mostValues = 30_000

    /// Inserts rows and returns why the table did not accept some of them unchanged, by their place.
    ///
    /// - Throws: any failure except that of a row that does not fit; that too while the chunk is
    ///   not yet processed row by row.
    func insert(
        _ rows: [RowContent]
    ) throws(SQLFailure) -> [Int: RowRefusal] {
        var refused: [Int: RowRefusal] = [:]
        let known = Set((layout.columns + layout.generated).map(ExactText.init))
        var alike: [[ExactText]: [Int]] = [:]
        for (index, row) in rows.enumerated() {
            guard row.columns.allSatisfy({ known.contains(ExactText($0)) }),
                let name = name(of: row)
            else {
                refused[index] = .value
                continue
            }
            if let refusal = isolation.refusal(of: name) {
                refused[index] = refusal
                continue
            }
            alike[row.columns.map(ExactText.init), default: []].append(index)
        }
        let groups = alike.values.sorted { $0[0] < $1[0] }
        guard !groups.isEmpty else { return refused }
        try ensureNoOthersWrite()
        try checkingKeysLate { () throws(SQLFailure) in
            if isolation.isOn {
                let places = groups.flatMap { $0 }
                refused.merge(try insertOneByOne(rows, at: places)) { known, _ in known }
            } else {
                try insertTogether(rows, groups.flatMap { batches($0, rows) })
            }
        }
        return refused
    }

    /// Requires that an insert runs no trigger of others that can write the table.
    ///
    /// - Throws: `configuration` where one is there in SQLite.
    func ensureNoOthersWrite() throws(SQLFailure) {
        guard dialect.engine == .sqlite else { return }
        let triggers = try Catalog(connection: connection).triggers(of: layout.table)
        guard let found = triggers.first(where: { $0.event != "DELETE" && !layout.owns($0) })
        else { return }
        throw SQLFailure(
            kind: .configuration, code: 0,
            message:
                "inserting a row of \(layout.table) may run the trigger \(found.name), which can write "
                + "other rows; nothing of this chunk was changed; remove the trigger, or set policy.action "
                + "to mark", longest: 480)
    }

    /// Runs statements after each of which a foreign key may be broken that a later one mends, where the
    /// engine can.
    func checkingKeysLate(_ statements: () throws(SQLFailure) -> Void) throws(SQLFailure) {
        guard dialect.engine == .sqlite else { return try statements() }
        // The end of a transaction turns it off, too.
        try connection.run("PRAGMA defer_foreign_keys = ON")
        try statements()
        try connection.run("PRAGMA defer_foreign_keys = OFF")
    }

    /// Inserts rows with few statements. Any refusal requests another try row by row.
    private func insertTogether(
        _ rows: [RowContent], _ batches: [[Int]]
    ) throws(SQLFailure) {
        for batch in batches {
            let some = batch.map { rows[$0] }
            do throws(SQLFailure) {
                try isolation.watching { () throws(SQLFailure) in try execute(some) }
            } catch {
                isolation.note(error)
                throw error
            }
        }
        let inserted = batches.flatMap { $0 }.map { rows[$0] }
        guard !connection.hasBrokenKeys, try differing(inserted).isEmpty else {
            isolation.isolate()
            throw Self.difference
        }
    }

    /// Thrown for a chunk that has to be processed again.
    static let difference = SQLFailure(
        kind: .conflict, code: 0, message: "an inserted row differs from its image")

    /// Inserts rows that were just removed, the last one first, and returns the places of those that are not
    /// as they were, where that is asked. All of them have the same columns.
    func insertBack(_ rows: [RowContent], comparing: Bool = true) throws(SQLFailure) -> [Int] {
        try ensureNoOthersWrite()
        try checkingKeysLate { () throws(SQLFailure) in
            for batch in batches(rows.indices.reversed(), rows) {
                let some = batch.map { rows[$0] }
                do throws(SQLFailure) {
                    try isolation.watching { () throws(SQLFailure) in try execute(some) }
                } catch {
                    isolation.note(error, isAboutRow: true)
                    throw error
                }
            }
        }
        guard !connection.hasBrokenKeys else {
            isolation.isolate()
            throw Self.difference
        }
        return comparing ? try differing(rows) : []
    }

    /// Inserts rows one by one, those that refer to a missing one again after the others, until none goes.
    private func insertOneByOne(
        _ rows: [RowContent], at places: [Int]
    ) throws(SQLFailure) -> [Int: RowRefusal] {
        var refused: [Int: RowRefusal] = [:]
        var waiting = places
        while true {
            var left: [Int] = []
            for place in waiting {
                refused[place] = try insertAlone(rows[place])
                if refused[place] == .dangling { left.append(place) }
            }
            if left.isEmpty { return refused }
            if left.count == waiting.count { break }
            // What came first may refer to what came next.
            waiting = left.reversed()
        }
        for place in try insertCircles(rows, at: waiting) { refused[place] = nil }
        return refused
    }

    /// Inserts those of some rows that refer to one another, and returns their places.
    private func insertCircles(
        _ rows: [RowContent], at places: [Int]
    ) throws(SQLFailure) -> [Int] {
        guard dialect.engine == .sqlite else { return [] }
        var left = places
        while left.count > 1 {
            let some = left.map { rows[$0] }
            try connection.run("SAVEPOINT pushsweep_row")
            var missing: [Int] = []
            do throws(SQLFailure) {
                for row in some { try execute([row]) }
                let found = try lookup.rows(keys: some.compactMap(key), locking: false).rows
                missing = left.filter { place in
                    name(of: rows[place]).flatMap { found[$0] }.map { !lookup.isExact($0) } ?? true
                }
                if !connection.hasBrokenKeys, try differing(some).isEmpty {
                    try connection.run("RELEASE SAVEPOINT pushsweep_row")
                    return left
                }
            } catch {
                guard RowRefusal(error) != nil, connection.isInTransaction else { throw error }
            }
            try connection.run("ROLLBACK TO SAVEPOINT pushsweep_row")
            try connection.run("RELEASE SAVEPOINT pushsweep_row")
            guard !missing.isEmpty else { return [] }
            left.removeAll(where: missing.contains)
        }
        return []
    }

    /// Inserts one row behind a savepoint. Returns why the table does not accept it unchanged; then it is not
    /// in the table.
    func insertAlone(_ row: RowContent) throws(SQLFailure) -> RowRefusal? {
        try connection.run("SAVEPOINT pushsweep_row")
        var refusal = try refusal(of: row)
        if refusal == .value, dialect.engine == .mariaDB {
            try connection.run("ROLLBACK TO SAVEPOINT pushsweep_row")
            try connection.run("SET SESSION sql_mode = '\(MariaDBConnection.lenientMode)'")
            // Restores strictness for later statements, whatever the outcome.
            defer {
                try? connection.run("SET SESSION sql_mode = '\(MariaDBConnection.strictMode)'")
            }
            refusal = try self.refusal(of: row)
        }
        if refusal != nil { try connection.run("ROLLBACK TO SAVEPOINT pushsweep_row") }
        try connection.run("RELEASE SAVEPOINT pushsweep_row")
        return refusal
    }

    /// The reason why the table does not accept a row unchanged; nil where it did.
    private func refusal(of row: RowContent) throws(SQLFailure) -> RowRefusal? {
        do throws(SQLFailure) {
            try execute([row])
            if connection.hasBrokenKeys { return .dangling }
            if try differing([row]).isEmpty { return nil }
            try removeRegistration(of: row)
            return try differing([row]).isEmpty ? nil : .altered
        } catch {
            if isolation.isSignal(error) { return .trigger }
            guard let refusal = RowRefusal(error) else { throw error }
            guard connection.isInTransaction else {
                if let name = name(of: row) { isolation.remember(refusal, of: name) }
                throw error
            }
            // SQLite has one error for both ends of a key, and an inserted row is the end that refers.
            return refusal == .referenced ? .dangling : refusal
        }
    }

    private func execute(
        _ rows: [RowContent]
    ) throws(SQLFailure) {
        let generated = Set(layout.generated.map(ExactText.init))
        let columns = rows[0].columns.filter { !generated.contains(ExactText($0)) }
        let row = "(\(placeholders(columns.count)))"
        let names = columns.map(dialect.quoted).joined(separator: ", ")
        _ = try connection.execute(
            "INSERT\(layout.orAbort) INTO \(layout.table.sql(dialect)) (\(names)) VALUES "
                + repeatElement(row, count: rows.count).joined(separator: ", "),
            rows.flatMap { row in columns.map { row[$0] ?? .null } })
    }

    /// Takes the time from a row that had none. In SQLite the trigger that writes a registration cannot
    /// tell an undo from the application.
    private func removeRegistration(of row: RowContent) throws(SQLFailure) {
        guard dialect.engine == .sqlite, let registration = layout.registration,
            let value = row[registration.name], registration.registration(value) == nil,
            let key = key(row)
        else { return }
        let condition = layout.key.map { "\(dialect.quoted($0.name)) IS ?" }
        _ = try connection.execute(
            "UPDATE\(layout.orAbort) \(layout.table.sql(dialect)) SET \(dialect.quoted(registration.name)) = ? WHERE "
                + condition.joined(separator: " AND "), [value] + key)
    }

    /// The places of those rows that the table has otherwise than their images.
    private func differing(
        _ rows: [RowContent]
    ) throws(SQLFailure) -> [Int] {
        // They are this transaction's own, so nobody else can change them.
        let found = try lookup.rows(keys: rows.compactMap(key), locking: false).rows
        return rows.indices.filter { index in
            guard let name = name(of: rows[index]), let values = found[name] else { return true }
            return !RowContent(lookup.columns, values).agrees(with: rows[index])
        }
    }

    private func key(_ row: RowContent) -> [SQLValue]? {
        let values = layout.key.compactMap { row[$0.name] }
        return values.count == layout.key.count ? values : nil
    }

    private func name(of row: RowContent) -> ExactText? { key(row).map(RowImage.key) }

    private func batches(_ indexes: some Collection<Int>, _ rows: [RowContent]) -> [[Int]] {
        let width = indexes.first.map { rows[$0].columns.count } ?? 1
        let most = dialect.changesRowsInBatches ? max(1, Self.mostValues / max(width, 1)) : 1
        let lengths = Self.lengths.filter { $0 <= most }
        var batches: [[Int]] = []
        var rest = Array(indexes)[...]
        while !rest.isEmpty {
            var bytes = 0
            let fitting = rest.prefix { index in
                bytes += rows[index].bytes
                return bytes <= Self.mostBytes
            }
            let length = lengths.first { $0 <= fitting.count } ?? 1
            batches.append(Array(rest.prefix(length)))
            rest = rest.dropFirst(length)
        }
        return batches
    }
}
