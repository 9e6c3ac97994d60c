import TestSupport

/// One privilege on one table, whole or on some columns, and what takes it away from an account.
struct OneRight: Hashable {
    let privilege: String
    /// The columns in SQL; empty for the whole table.
    let columns: [String]
    /// The table in SQL, `*.*` for all.
    let table: String

    /// The bare name of the table; nil for all.
    var tableName: String? {
        guard table != "*.*", let last = table.split(separator: ".").last else { return nil }
        return last.filter { $0 != "`" }
    }

    /// The right in the printed table.
    var name: String {
        let part = columns.isEmpty ? "" : "(\(columns.joined(separator: ",").filter { $0 != "`" }))"
        return "\(privilege)\(part) \(tableName ?? table)"
    }

    private var words: String {
        columns.isEmpty ? privilege : "\(privilege) (\(columns.joined(separator: ", ")))"
    }

    /// The statement that gives the right to an account.
    func grant(_ account: ServerAccount) -> String {
        "GRANT \(words) ON \(table) TO '\(account.name)'@'%'"
    }

    /// The statement that takes it away.
    func revoke(_ account: ServerAccount) -> String {
        "REVOKE \(words) ON \(table) FROM '\(account.name)'@'%'"
    }

    /// The right without its other columns, once for each.
    var parts: [OneRight] {
        columns.count < 2
            ? [] : columns.map { OneRight(privilege: privilege, columns: [$0], table: table) }
    }

    /// The rights that statements give, in their order: those of one privilege on one table are one.
    static func all(_ statements: [String]) throws -> [OneRight] {
        var rights: [OneRight] = []
        for statement in statements {
            guard let parts = statement.wholeMatch(of: /GRANT (.+) ON ([^ ]+) TO .+/) else {
                throw TestFailure("no GRANT: \(statement)")
            }
            for part in parts.1.matches(of: /([A-Z ]+[A-Z])(?: \(([^)]*)\))?(?:, |$)/) {
                let columns = part.2.map { $0.split(separator: ", ").map(String.init) } ?? []
                let right = OneRight(
                    privilege: String(part.1), columns: columns, table: String(parts.2))
                let place = rights.firstIndex {
                    $0.privilege == right.privilege && $0.table == right.table
                }
                guard let place else { rights.append(right); continue }
                rights[place] = rights[place].joined(columns)
            }
        }
        return rights
    }

    private func joined(_ more: [String]) -> OneRight {
        let isWhole = columns.isEmpty || more.isEmpty
        return OneRight(
            privilege: privilege,
            columns: isWhole ? [] : columns + more.filter { !columns.contains($0) }, table: table)
    }
}
