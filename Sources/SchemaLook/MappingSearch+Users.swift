import Database
import Encodings
import TokenTable

// Support asks for a person, not for a token: `explain --user` finds rows by a column of
// users. One with a usual name is found without a setting. Another one shows itself by a foreign key, by its
// name, by an index, and by values that stand in a few rows each.

extension MappingSearch {
    /// A column that may name the user of a row.
    private struct UserColumn {
        let column: CatalogColumn
        let score: Int
        let reasons: [String]
    }

    /// The score from which a column is that of users by itself, and the least.
    private static let clear = 3
    private static let least = 2

    mutating func findUser() {
        if let usual = table.catalog.column("user_id"), usual.isText || usual.isInteger { return }
        let columns = free.compactMap(userColumn).sorted { $0.score > $1.score }
        let clear = columns.filter { $0.score >= Self.clear }
        guard let best = columns.first else { return nameKey() }
        let rivals = columns.dropFirst().filter {
            $0.score >= (clear.isEmpty ? Self.least : Self.clear) && $0.score + 3 > best.score
        }
        guard rivals.isEmpty else {
            let all = [best] + rivals
            let list = all.map { "\($0.column.name) (\($0.reasons.joined(separator: ", ")))" }
            return ask(
                .user, about: best.column.name,
                "the user of a token may be \(list.joined(separator: " or ")), and `explain --user` finds rows "
                    + "by one: write user: {column: \(best.column.name.yamlScalar)}")
        }
        add(.user, best, best.reasons.joined(separator: ", "))
    }

    private mutating func add(
        _ part: MappingProposal.Line.Part, _ user: UserColumn, _ reasons: String
    ) {
        let name = user.column.name
        proposal.mapping.user = .named(name)
        add(
            part, name, "{column: \(name.yamlScalar)}",
            "\(reasons); `explain --user` finds rows by it")
    }

    /// In a table of people the key is the user.
    private mutating func nameKey() {
        guard ColumnWords(table.catalog.name.name).isOfPeople, table.catalog.primaryKey.count == 1,
            let key = table.catalog.column(table.catalog.primaryKey[0]),
            key.isText || key.isInteger,
            !key.name.isExactly(token.column.name)
        else { return }
        proposal.mapping.user = .named(key.name)
        proposal.lines.append(
            .init(
                part: .user, column: key.name, value: "{column: \(key.name.yamlScalar)}",
                reason:
                    "each row is a person; `explain --user` finds rows by it"))
    }

    private func userColumn(_ column: CatalogColumn) -> UserColumn? {
        let name = ColumnWords(column.name)
        guard column.isText || column.isInteger, !table.catalog.isUnique([column.name]),
            name.namesUser || !name.namesNoUser,
            !name.isOfSecret || name.has(["uuid", "guid"])
        else { return nil }
        let words = table.words(column).compactMap { $0 }
        var counts: [ExactText: Int] = [:]
        for word in words { counts[ExactText(word), default: 0] += 1 }
        // Words that many rows share are kinds of something.
        guard words.count * 2 >= table.rows.count, !words.isEmpty,
            counts.count * 20 >= words.count || counts.count > 50,
            words.allSatisfy({ $0.utf8.count <= 64 }), TimeLook(column, of: table) == nil
        else { return nil }
        var (score, reasons) = (0, [String]())
        if let key = table.references.first(where: { $0.column.isExactly(column.name) }) {
            let isOfPeople = ColumnWords(key.table.name).isOfPeople
            score += isOfPeople ? 4 : 1
            reasons.append("it is a key of \(key.table)")
        }
        if name.namesUser {
            score += 3
            reasons.append("its name says user")
        }
        if table.catalog.index(onToken: column.name) != nil {
            score += 1
            reasons.append("it is indexed")
        }
        let most = counts.values.max() ?? 0
        if counts.count < words.count, most * 20 <= words.count || most <= 10 {
            score += 1
            reasons.append("its values stand in a few rows each")
        }
        return score >= Self.least
            ? UserColumn(column: column, score: score, reasons: reasons) : nil
    }
}
