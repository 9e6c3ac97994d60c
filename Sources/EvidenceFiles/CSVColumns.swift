import TokenHygiene

/// Where the fields of a report are in the rows of a CSV file.
struct CSVColumns {
    /// One field: its column from 0, and the way into the JSON that the column holds.
    private struct Place {
        let column: Int
        let steps: [JSONPath.Step]
        let path: JSONPath
    }

    private let places: [ReportField: Place]
    /// The last column of them.
    private let last: Int

    private init(_ places: [ReportField: Place]) {
        self.places = places
        last = places.values.map(\.column).max() ?? 0
    }

    /// The columns of a map that numbers them, from 1; nil for a map with names.
    init?(numbers map: FieldMap) {
        var places: [ReportField: Place] = [:]
        for (field, path) in map.paths {
            guard let number = path.columnNumber else { return nil }
            places[field] = Place(column: number - 1, steps: [], path: path)
        }
        self.init(places)
    }

    /// Finds the columns by the line of names.
    ///
    /// - Throws: for a column that is not there, or there twice.
    init(names row: CSVRow, _ map: FieldMap) throws(UnreadableFile) {
        guard !map.paths.values.contains(where: { $0.columnNumber != nil }) else {
            throw UnreadableFile.map(
                "it mixes columns by number, which need no line of names, with columns "
                    + "by name")
        }
        // A line may have a hundred thousand names, so they are not kept.
        let (numbers, name) = (0..<row.count, row.field)
        var places: [ReportField: Place] = [:]
        for (field, path) in map.paths {
            // The whole name comes first, then the longest one with which the path begins.
            let wholes = numbers.filter { name($0) == path.wholeName }
            let begins = numbers.filter { path.steps(after: name($0)) != nil }
            let longest = begins.map { name($0).count }.max()
            let found = wholes.isEmpty ? begins.filter { name($0).count == longest } : wholes
            guard let column = found.first else { continue }
            guard found.count == 1 else {
                throw UnreadableFile.map(
                    "the first line names the column "
                        + "\(String(decoding: name(column).prefix(64), as: UTF8.self)) twice, and which is meant "
                        + "nobody can know")
            }
            let steps = wholes.isEmpty ? path.steps(after: name(column)) ?? [] : []
            places[field] = Place(column: column, steps: steps, path: path)
        }
        if map == .standard { try Self.refuseNearNames(of: row, map) }
        // A column that is mapped and not there would turn every line into one about nothing.
        let wanted = map == .standard ? [.token] : Array(map.paths.keys)
        if let missing = wanted.first(where: { places[$0] == nil }) {
            // Without a line of names the first line has a token, which no message may contain.
            let known = numbers.prefix(20).map(name).map { name in
                String(decoding: name.prefix(12), as: UTF8.self) + (name.count > 12 ? "…" : "")
            }
            throw UnreadableFile.map(
                "the first line names no column "
                    + "\(map.paths[missing]?.text ?? ""); it names " + known.joined(separator: ", ")
            )
        }
        self.init(places)
    }

    /// Refuses a name that differs from one of ours in spaces or capitals alone: without its column a
    /// report without a time would get that of its sending.
    private static func refuseNearNames(
        of row: CSVRow, _ map: FieldMap
    ) throws(UnreadableFile) {
        let names = map.paths.values.map(\.wholeName)
        for number in 0..<row.count {
            let name = row.field(number)
            let plain = String(decoding: name, as: UTF8.self).lowercased()
                .trimmingPrefix(while: \.isWhitespace)
            guard let near = names.first(where: { plain.utf8.starts(with: $0) }), near != name,
                plain.dropFirst(near.count).allSatisfy(\.isWhitespace)
            else { continue }
            let meant = String(decoding: near, as: UTF8.self)
            throw UnreadableFile.map(
                "the first line writes the column \(meant) with other capitals or "
                    + "with spaces around it; correct the first line, or name each column")
        }
    }

    /// Checks that a row has the columns of a map with numbers. Every row has the width of the first.
    ///
    /// - Throws: for a number beyond the row.
    func check(_ row: CSVRow) throws(UnreadableFile) {
        guard row.count <= last else { return }
        for (field, place) in places where place.column == last {
            throw UnreadableFile.map(
                "it names column \(last + 1) for \(field.rawValue), and the first row "
                    + "has \(row.count)")
        }
    }

    /// The values of a row.
    ///
    /// - Precondition: the row has the columns; see `check`.
    /// - Throws: for a cell with JSON that has a key of the path twice.
    func fields(of row: CSVRow) throws(UnusableReport) -> FieldValues {
        var fields = FieldValues()
        for (field, place) in places {
            let text = row.field(place.column)
            guard place.steps.isEmpty else {
                do throws(UnusableReport) {
                    let found = try JSONFields.value(
                        at: place.steps[...], of: place.path, inText: .apart(text))
                    fields[field] = found.value
                    if field == .token { fields.unread = found.beside }
                } catch {
                    guard case .nested(_, let isCut) = error else {
                        throw .line("the JSON in it has a key twice")
                    }
                    // A column has no step of its own.
                    throw .nested(path: "the column of \(place.path.text)", isCut: isCut)
                }
                continue
            }
            let isEmpty = text.isEmpty || row.isNull(place.column)
            fields[field] = isEmpty ? .empty : .text(.apart(text))
        }
        return fields
    }
}

extension JSONPath {
    /// The number of a column, from 1; nil for a name.
    fileprivate var columnNumber: Int? {
        guard steps.count == 1, let number = Int(String(decoding: wholeName, as: UTF8.self)),
            number > 0
        else { return nil }
        return number
    }
}
