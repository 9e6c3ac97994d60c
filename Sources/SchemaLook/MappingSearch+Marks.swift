import APNsProtocol
import Database
import Encodings
import TokenTable

// What says that a row is not used any more.

extension MappingSearch {
    // MARK: Mark

    /// Whether the table has both columns that `schema apply` makes for marks. One of such a name alone may
    /// be the application's own.
    private var hasOwnMark: Bool {
        let usual = TableMapping()
        return [usual.invalidatedAt.column, usual.reason].allSatisfy {
            $0.name.flatMap(table.catalog.column) != nil
        }
    }

    /// Asks which column is the mark. Until a person answers, none is: marks go beside the table.
    mutating func askMarks() {
        if let trigger = foreignTrigger { return keepMarksBeside(trigger) }
        let usual = TableMapping().invalidatedAt.column
        if hasOwnMark, let name = usual.name, !taken.contains(name) {
            proposal.mapping.invalidatedAt.column = .named(name)
            return add(
                .invalidatedAt, name, name.yamlScalar,
                "the mark: `pushsweep schema apply` makes it, with invalid_reason")
        }
        proposal.mapping.invalidatedAt.column = .absent
        // A column of apps may be a mark as well.
        let asked = Set(proposal.questions.filter { $0.part != .app }.compactMap(\.column))
        let candidates = markCandidates.filter { !asked.contains($0.column.name) }
        add(
            .invalidatedAt, nil, "none",
            MarksBeside.sentence
                + (candidates.isEmpty
                    ? ""
                    : "; where your sender reads a column of this table as its mark, take that: init writes "
                        + "none without a person's word"
                        + (isOfPeople
                            ? ", and here a row is a person, whom a mark might log out" : ""))
        )
        for candidate in candidates { ask(candidate) }
    }

    /// Proposes marks beside the rows, where a mark in them would run a trigger that can write them.
    private mutating func keepMarksBeside(_ trigger: String) {
        proposal.mapping.invalidatedAt.column = .absent
        add(
            .invalidatedAt, nil, "none",
            "trigger \(trigger) can write a row while it is marked, so no column of it is the mark; "
                + MarksBeside.sentence)
    }

    /// Takes away the candidates' questions, as `check` would ask them, where a person wants no mark.
    mutating func ignoreMarks() {
        let names = markCandidates.map(\.column.name)
        guard !names.isEmpty else { return }
        proposal.mapping.ignoredColumns = names
        add(
            .ignoredColumns, nil, "[\(names.map(\.yamlScalar).joined(separator: ", "))]",
            "\(LookAnswers.reason): none of them is the mark, so `check` asks about none")
    }

    private var markCandidates: [MarkCandidate] {
        // A time at which a device was there is none at which it went.
        MarkSearch(table: table, apple: apple).candidates(among: free).filter {
            $0.part == .living || !ColumnWords($0.column.name).isOfUse
        }
    }

    private mutating func ask(_ candidate: MarkCandidate) {
        let isLiving = candidate.part == .living
        let comment =
            candidate.column.comment.isEmpty
            ? "" : "; its comment is \"\(candidate.column.comment.prefix(80))\""
        var line = MappingProposal.Line(
            part: isLiving ? .living : .invalidatedAt, column: candidate.column.name, value: nil,
            reason: candidate.facts + comment + candidate.doubt, answer: candidate.answer)
        line.setting = candidate.setting
        line.isUnlikely = candidate.likelihood < MarkCandidate.leastLikely
        proposal.lines.append(line)
    }

    /// Whether the rows are more than devices.
    var isOfPeople: Bool {
        ColumnWords(table.catalog.name.name).isOfPeople
            || table.columns.contains { ColumnWords($0.name).isOfLogin }
    }

    /// The value of `living` in settings.
    static func flag(
        _ column: String, _ living: String, _ dead: String, others: [String] = []
    ) -> String {
        "{column: \(column.yamlScalar), living: \(living.yamlScalar), "
            + "dead: \(dead.yamlScalar)"
            + (others.isEmpty
                ? "" : ", others: [\(others.map(\.yamlScalar).joined(separator: ", "))]") + "}"
    }

    /// The value of a time in settings.
    static func time(_ column: String, _ type: TimeColumnType?) -> String {
        guard let type else { return column.yamlScalar }
        return "{column: \(column.yamlScalar), type: \(type.rawValue)}"
    }
}
