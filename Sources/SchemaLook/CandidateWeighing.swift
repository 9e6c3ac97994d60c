// Values of 64 hex digits are not rare: hashes have them, and logs and copies have true tokens in a table to
// which no sender looks. So a column is weighed by its whole table before it is taken:
//
//   name       of a secret, a hash or a cipher, or of nothing that has to do with push
//   width      Apple's tokens of devices have 32 bytes; SHA-512 and blocks of a cipher have others
//   company    what stands beside a text that nobody reads may be its hash
//   log        a name of what was sent or of dead devices, columns of sendings, many rows with one token
//   copy       a name of one; its newest time is long ago, and its tokens stand in a table that is alive
//
// One doubt is enough that a person is asked. Of two columns without one the better name wins only if the
// other has hardly a name at all.

import APNsProtocol
import Database
import Encodings
import Findings
import TokenTable

extension DatabaseLook.Found {
    /// Whether a person has to decide between this column and a better one.
    func isRival(of best: DatabaseLook.Found) -> Bool {
        isLikely && (rank > 1 || rank >= best.rank)
    }
}

/// Weighs the columns that a look has found.
struct CandidateWeighing {
    /// The most tables that are read whole, the likeliest first.
    private static let mostTables = 16
    private static let day: Int64 = 86_400_000

    private let session: DatabaseSession
    private let now: EpochMilliseconds
    /// The table that a person named; nil for none.
    private let table: TableName?

    private var dialect: SQLDialect { session.connection.dialect }

    init(_ session: DatabaseSession, now: EpochMilliseconds, table: TableName?) {
        (self.session, self.now, self.table) = (session, now, table)
    }

    /// A column with its whole table.
    private struct Weighed {
        var found: DatabaseLook.Found
        let candidate: TokenCandidate
        let look: LookedTable
        /// The newest time of the table that is not in the future; nil without times.
        let newest: EpochMilliseconds?
    }

    /// The columns with what speaks for and against each.
    ///
    /// - Throws: any failure of a query but a missing right.
    func weighed(_ found: [DatabaseLook.Found]) throws(StoreFailure) -> [DatabaseLook.Found] {
        var looks: [TableName: LookedTable] = [:]
        var candidates: [TableName: [TokenCandidate]] = [:]
        for one in found where one.score >= TokenCandidate.leastScore {
            guard looks[one.table] == nil, looks.count < Self.mostTables else { continue }
            looks[one.table] = try look(at: one.table)
            candidates[one.table] = looks[one.table].map(TokenCandidate.all)
        }
        var weighed: [Weighed] = []
        var others: [DatabaseLook.Found] = []
        for var one in found {
            let words = ColumnWords(one.column)
            guard let look = looks[one.table],
                let candidate = candidates[one.table]?.first(where: {
                    $0.column.name.isExactly(one.column)
                })
            else {
                one.doubts.append(
                    words.isOfSecret
                        ? "its name is that of a secret or a hash"
                        : "neither its name nor its table speaks of push")
                others.append(one)
                continue
            }
            judge(&one, candidate, look)
            if table == nil { try judgeTable(&one, candidate, look) }
            weighed.append(
                Weighed(
                    found: one, candidate: candidate, look: look,
                    newest: newest(of: look)))
        }
        judgeSiblings(&weighed)
        if table == nil { try judgeCopies(&weighed) }
        return weighed.map(\.found) + others
    }

    private func look(at name: TableName) throws(StoreFailure) -> LookedTable? {
        do {
            let table = try session.catalogTable(
                name, setting: "--table", cure: "leave --table out")
            return try TokenTable.look(at: table, session, now: now)
        } catch {
            guard [.permission, .configuration].contains(error.code) else { throw error }
            return nil
        }
    }

    // MARK: The column

    private func judge(
        _ found: inout DatabaseLook.Found, _ candidate: TokenCandidate, _ look: LookedTable
    ) {
        let words = ColumnWords(found.column)
        let place = ColumnWords(found.table.name)
        let isOfDevices = place.tableScore > 0
        let isIdentified = candidate.others * 20 >= candidate.filled
        if candidate.nameScore >= 6 {
            found.reasons.append("its name is that of push tokens")
        } else if candidate.nameScore >= 4 {
            found.reasons.append("its name is that of tokens")
        }
        if isOfDevices { found.reasons.append("the name of its table speaks of push or devices") }
        if isIdentified { found.reasons.append("identifiers of other platforms stand beside them") }
        if look.catalog.isUnique([found.column]) { found.reasons.append("each value is unique") }
        found.rank =
            candidate.nameScore >= 6 || isIdentified
            ? 3
            : candidate.nameScore >= 4 && isOfDevices
                ? 2 : candidate.nameScore >= 1 || isOfDevices ? 1 : 0
        if found.reasons.isEmpty { found.reasons.append("its values alone") }
        var isInDocument = false
        if case .json = candidate.form { isInDocument = true }
        if words.isOfSecret, !isInDocument {
            found.doubts.append("its name is that of a secret or a hash")
        } else if place.isOfCipher || place.has(["hash", "hashes", "hashed", "digests"]) {
            found.doubts.append("the name of its table is that of hashes or ciphers")
        } else if let tail = words.tokenTail, candidate.form != .url, !isInDocument {
            found.doubts.append(
                "`\(tail)` of its name says more than token, as that of a hash or a cipher does")
        } else if place.isOfLogins || place.isOfSecret && !place.speaksOfDevices,
            candidate.nameScore < 6 || place.isOfTrust && !words.speaksOfPush && !isIdentified
        {
            found.doubts.append("its table is that of logins")
        } else if found.rank == 0 || !speaksOfDevices(candidate, look) {
            found.doubts.append("neither its name nor its table speaks of push")
        } else if table == nil, !isIdentified, !isInDocument, candidate.form != .url,
            candidate.form != .spelled(.several), !words.mayNameTokens
        {
            found.doubts.append("its name is not that of a token")
        }
        if let width = Self.width(candidate, look) {
            found.doubts.append(
                "most of its values have \(width) bytes, as hashes and ciphers may; Apple's tokens of devices "
                    + "have 32")
        }
        if let other = Self.betterNamed(than: candidate, in: look) {
            found.doubts.append("\(other) stands beside it, whose name is that of push tokens")
        }
        if let other = Self.opaque(beside: candidate, in: look) {
            found.doubts.append("\(other) stands beside it, of which it may be the hash")
        }
    }

    /// Whether anything says that the tokens are those of devices: documents, contracts and addresses have
    /// tokens, too. A person who names the table says so.
    private func speaksOfDevices(_ candidate: TokenCandidate, _ look: LookedTable) -> Bool {
        if case .json(let path) = candidate.form,
            path.contains(where: { ColumnWords($0).speaksOfDevices })
        {
            return true
        }
        return table != nil || candidate.nameScore >= 6
            || candidate.others * 20 >= candidate.filled
            || ColumnWords(candidate.column.name).speaksOfDevices
            || ColumnWords(look.catalog.name.name).speaksOfDevices
            || look.columns.contains { column in
                ColumnWords(column.name).namesPlatform && look.mayHoldWords(column)
                    && look.words(column).contains {
                        $0.map { ValueWords.apple.contains($0.lowercased()) } == true
                    }
            }
    }

    /// The bytes of most values, where these are not those of a device's token; nil for tokens.
    private static func width(_ candidate: TokenCandidate, _ look: LookedTable) -> Int? {
        var counts: [Int: Int] = [:]
        for value in look.values(candidate.column.name) {
            guard TokenForm(value, of: candidate.column) == candidate.form else { continue }
            let text: [UInt8]
            switch value {
            case .text(let word): text = Array(word.utf8)
            case .bytes(let bytes): text = bytes
            default: continue
            }
            switch candidate.form {
            case .hex: counts[text.count / 2, default: 0] += 1
            case .bytes: counts[text.count, default: 0] += 1
            case .spelled(.base64):
                let digits = text.reversed().drop { $0 == UInt8(ascii: "=") }.count
                counts[digits * 3 / 4, default: 0] += 1
            case .spelled, .url, .json: return nil
            }
        }
        guard let (width, count) = counts.max(by: { ($0.value, $0.key) < ($1.value, $1.key) }),
            width != 32, count * 2 > candidate.count
        else { return nil }
        return width
    }

    /// A column of the same rows whose name is that of tokens, and whose values nobody can read; nil
    /// without one.
    private static func opaque(
        beside candidate: TokenCandidate, in look: LookedTable
    ) -> String? {
        switch candidate.form {
        case .json, .url: return nil
        case .hex, .bytes, .spelled: break
        }
        guard candidate.nameScore < 6 else { return nil }
        let mine = look.values(candidate.column.name).map {
            TokenForm($0, of: candidate.column) == candidate.form
        }
        return look.columns.first { column in
            guard !column.name.isExactly(candidate.column.name),
                TokenCandidate.mayHoldTokens(column),
                ColumnWords(column.name).tokenScore >= 4 || ColumnWords(column.name).isOfCipher
            else { return false }
            let values = look.values(column.name)
            let both = values.indices.filter { mine[$0] && !TokenSample.isBlank(values[$0]) }
            let opaque = both.count { isOpaque(values[$0]) }
            return !both.isEmpty && opaque * 5 >= both.count * 4
                && both.count * 2 >= candidate.count
        }?.name
    }

    /// A column of the same rows whose name says push tokens, or a token of logins in the same form, where that
    /// of a candidate says only tokens; nil without one.
    private static func betterNamed(
        than candidate: TokenCandidate, in look: LookedTable
    ) -> String? {
        guard candidate.nameScore < 6, case .hex = candidate.form else { return nil }
        return look.columns.first { column in
            let words = ColumnWords(column.name)
            guard !column.name.isExactly(candidate.column.name),
                TokenCandidate.mayHoldTokens(column)
            else { return false }
            // Of two in one form a person decides.
            return words.tokenScore >= 6 && !words.isOfOtherToken
                && !look.values(column.name).contains {
                    TokenForm($0, of: column) == candidate.form
                }
        }?.name
    }

    private static func isOpaque(_ value: SQLValue) -> Bool {
        switch value {
        case .bytes(let bytes): bytes.count >= 32
        case .rawText: true
        case .text(let text): isOpaque(Array(text.utf8))
        default: false
        }
    }

    private static func isOpaque(_ text: [UInt8]) -> Bool {
        text.count >= 40 && !text.allSatisfy { Hex.value(of: $0) != nil }
            && text.allSatisfy { PlainText.isAlphanumeric($0) || "+/=-_.$".utf8.contains($0) }
    }

    /// Tokens of another kind beside those of notifications.
    private func judgeSiblings(_ all: inout [Weighed]) {
        for place in all.indices where ColumnWords(all[place].found.column).isOfOtherToken {
            let own = all[place].found
            let hasSibling = all.contains {
                $0.found.table == own.table && $0.found.place != own.place && $0.found.isLikely
                    && $0.candidate.nameScore >= 4 && !ColumnWords($0.found.column).isOfOtherToken
            }
            if hasSibling {
                all[place].found.doubts.append(
                    "its name is that of another token of the same device")
            }
        }
    }

    // MARK: The table

    private func judgeTable(
        _ found: inout DatabaseLook.Found, _ candidate: TokenCandidate, _ look: LookedTable
    ) throws(StoreFailure) {
        let isNamed = ColumnWords(found.table.name).isOfSendings
        if isNamed {
            found.doubts.append(
                "the name of its table is that of a log, a queue or devices that are not used")
        }
        guard !look.catalog.isUnique([found.column]),
            !ColumnWords(found.table.name).isOfPeople
        else { return }
        let columns = look.catalog.columns.filter { !$0.name.isExactly(found.column) }
        let sure = columns.filter { ColumnWords($0.name).sendingScore == 2 }
        let more = columns.filter { ColumnWords($0.name).sendingScore == 1 }
        let (rows, tokens) = try repetition(of: found.column, in: look.catalog)
        let isRepeated = rows >= 3 && rows * 2 >= tokens * 3
        guard
            sure.count > 1
                || sure.count + more.count > 1 && (isRepeated || isNamed) && !sure.isEmpty
                || isRepeated
        else { return }
        let seen = (sure + more).prefix(3).map(\.name).joined(separator: ", ")
        found.doubts.append(
            (sure.isEmpty ? "" : "it looks like a log of what was sent (\(seen))")
                + (sure.isEmpty || !isRepeated ? "" : ", ")
                + (isRepeated ? "\(rows) rows have \(tokens) tokens" : ""))
    }

    /// The newest rows that are read to see how often a token stands in them.
    private static let newestRows = 20_000

    private func repetition(
        of column: String, in table: CatalogTable
    ) throws(StoreFailure) -> (rows: Int, tokens: Int) {
        let name = dialect.quoted(column)
        let order = table.primaryKey.map { "\(dialect.quoted($0)) DESC" }.joined(separator: ", ")
        let newest =
            "SELECT \(name) FROM \(table.name.sql(dialect))"
            + (order.isEmpty ? "" : " ORDER BY \(order)") + " LIMIT \(Self.newestRows)"
        let rows = try session.retries.retrying("reading the newest rows of \(table.name)") {
            () throws(SQLFailure) in
            // What stands for no token is the same in many rows.
            try session.connection.query(
                "SELECT SUM(number), COUNT(*) FROM (SELECT COUNT(*) AS number FROM (\(newest)) AS newest "
                    + "WHERE LENGTH(\(name)) >= 32 GROUP BY \(name)) AS tokens")
        }
        guard rows.count > 0 else { return (0, 0) }
        let sum = rows[0, 0].text.flatMap { Int($0) } ?? rows[0, 0].count ?? 0
        return (sum, rows[0, 1].count ?? 0)
    }

    private func newest(of look: LookedTable) -> EpochMilliseconds? {
        let limit = now.advanced(by: Self.day)
        return look.columns.compactMap { TimeLook($0, of: look) }
            .flatMap { $0.known }.filter { $0 <= limit }.max()
    }

    // MARK: Copies

    private func judgeCopies(_ all: inout [Weighed]) throws(StoreFailure) {
        // Without times the name has to do.
        let alive = all.filter { $0.found.isLikely && !ColumnWords($0.found.table.name).isOfCopy }
        for place in all.indices {
            let own = all[place]
            guard own.found.isLikely else { continue }
            let others = alive.filter {
                $0.found.table != own.found.table && $0.candidate.form == own.candidate.form
            }
            if ColumnWords(own.found.table.name).isOfCopy {
                all[place].found.doubts.append("the name of its table is that of a copy")
            }
            for other in others {
                guard let mine = own.newest, let theirs = other.newest,
                    mine < theirs.advanced(by: -30 * Self.day)
                else { continue }
                let shared = try share(of: own, in: other)
                guard shared * 10 >= 1 || mine < now.advanced(by: -180 * Self.day) else { continue }
                let day = WallClock(milliseconds: mine.rawValue).text(fraction: 0).prefix(10)
                let doubt =
                    "its newest time is of \(day)"
                    + (shared > 0 ? ", and its tokens stand in \(other.found.place)" : "")
                all[place].found.doubts.append(doubt)
                break
            }
        }
    }

    /// The tokens that are looked for, and the rows of a table without an index that are read for them.
    private static let probes = 40
    private static let fewRows = 200_000

    /// The share of some tokens of a column that stand in another one.
    private func share(of own: Weighed, in other: Weighed) throws(StoreFailure) -> Double {
        let tokens = Set(
            own.look.values(own.candidate.column.name).filter {
                TokenForm($0, of: own.candidate.column) == own.candidate.form
            }.prefix(Self.probes))
        guard !tokens.isEmpty else { return 0 }
        let catalog = other.look.catalog
        let name = dialect.quoted(other.candidate.column.name)
        let table = catalog.name.sql(dialect)
        let isIndexed = catalog.index(onToken: other.candidate.column.name) != nil
        let source =
            isIndexed ? table : "(SELECT \(name) FROM \(table) LIMIT \(Self.fewRows)) AS looked"
        let found = try session.retries.retrying("looking for tokens in \(catalog.name)") {
            () throws(SQLFailure) in
            try session.connection.query(
                "SELECT COUNT(DISTINCT \(name)) FROM \(source) WHERE \(name) IN "
                    + "(\(placeholders(tokens.count)))", Array(tokens)
            ).scalar?.count ?? 0
        }
        return Double(found) / Double(tokens.count)
    }
}
