import Operations

// The values that the templates show. The templates' library reads their fields by name. It looks a name that
// a value does not have, or has as nil, up in the values around it. So fields are never optional:
// what may be missing is a list of none or one.

/// A table as the template shows it.
struct TableView {
    struct Column {
        let heading: String
        let kind: String
    }
    struct Cell {
        let cell: String
        let kind: String
    }
    struct Row {
        let name: String
        let cells: [Cell]
    }

    let caption: String
    let columns: [Column]
    let rows: [Row]
    let remarks: [String]

    /// Cuts a table to the limits of a page.
    init(_ table: FigureTable, _ limits: PageLimits, rows limit: Int? = nil) {
        let table = table.cut(to: limit ?? limits.rows)
        let kinds = table.columns.indices.map { table.isNumeric($0) ? "n" : "t" }
        caption = table.title
        columns = zip(table.columns, kinds).map {
            Column(heading: $0.cut(to: limits.name), kind: $1)
        }
        rows = table.rows.map { row in
            let texts = row.map { $0.text.cut(to: limits.name) }
            return Row(
                name: texts[0],
                cells: zip(texts, kinds).dropFirst().map { Cell(cell: $0, kind: $1) })
        }
        remarks = table.remark.map { [$0] } ?? []
    }
}

/// One of the large figures at the top.
struct TileView {
    let label: String
    let figure: String
    let remark: String
    let size: String

    init(label: String, figure: String, remark: String) {
        (self.label, self.figure, self.remark) = (label, figure, remark)
        size = figure.count > 9 ? "large long" : "large"
    }
}

/// A finding as the template shows it.
struct FindingView {
    let severity: String
    let object: String
    let summary: String
    let causes: [String]
    let cures: [String]
    let rule: String

    /// Cuts a finding to the limits of a page.
    init(_ group: FindingGroup, _ limits: PageLimits) {
        let finding = group.finding
        severity = finding.severity.rawValue
        object = group.objects(limits.objects, cut: limits.name)
        summary = finding.sentence.cut(to: limits.sentence)
        causes = [group.cause].compactMap { $0?.cut(to: limits.sentence) }
        cures = [group.cure].compactMap { $0?.cut(to: limits.sentence) }
        rule = finding.rule.cut(to: limits.name)
    }
}

/// A folded list.
struct ListView<Item> {
    let heading: String
    let total: String
    let items: [Item]
    let more: [String]

    /// Cuts a list to a number of items; none for an empty list.
    static func some<Source>(
        _ heading: String, _ sources: [Source], limit: Int, _ item: (Source) -> Item
    ) -> [ListView] {
        guard !sources.isEmpty else { return [] }
        let rest = sources.count - limit
        return [
            ListView(
                heading: heading, total: sources.count.grouped,
                items: sources.prefix(limit).map(item),
                more: rest > 0
                    ? ["\(rest.grouped) more left out here; the JSON and CSV formats have all."]
                    : [])
        ]
    }
}
