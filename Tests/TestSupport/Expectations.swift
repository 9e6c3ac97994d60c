import Foundation
import Testing

// What tests expect of a finished program or job. Each failure shows everything that was printed.

extension ToolResult {
    /// Everything that the program printed.
    package var printed: String { output + error }

    private func require(
        _ holds: Bool, _ why: @autoclosure () -> String, _ what: String?, _ place: SourceLocation
    ) {
        guard !holds else { return }
        Issue.record(
            "\(what.map { $0 + ": " } ?? "")\(why()); exit \(exit): \(printed)",
            sourceLocation: place)
    }

    /// Expects one of some exit codes, and texts in what was printed.
    @discardableResult
    package func ends(
        _ codes: [Int32], _ texts: String..., for what: String? = nil, file: String = #fileID,
        path: String = #filePath, line: Int = #line, column: Int = #column
    ) -> ToolResult {
        let place = SourceLocation(fileID: file, filePath: path, line: line, column: column)
        require(codes.contains(exit), "not ended with \(codes)", what, place)
        for text in texts { require(printed.contains(text), "not said: \(text)", what, place) }
        return self
    }

    /// Expects an exit code, and texts in what was printed.
    @discardableResult
    package func ends(
        _ code: Int32, _ texts: String..., for what: String? = nil, file: String = #fileID,
        path: String = #filePath, line: Int = #line, column: Int = #column
    ) -> ToolResult {
        let place = SourceLocation(fileID: file, filePath: path, line: line, column: column)
        require(code == exit, "not ended with \(code)", what, place)
        for text in texts { require(printed.contains(text), "not said: \(text)", what, place) }
        return self
    }

    /// Expects texts in what was printed.
    @discardableResult
    package func says(
        _ texts: String..., for what: String? = nil, file: String = #fileID,
        path: String = #filePath, line: Int = #line, column: Int = #column
    ) -> ToolResult {
        let place = SourceLocation(fileID: file, filePath: path, line: line, column: column)
        for text in texts { require(printed.contains(text), "not said: \(text)", what, place) }
        return self
    }

    /// Expects that texts are in nothing that was printed.
    @discardableResult
    package func lacks(
        _ texts: String..., for what: String? = nil, file: String = #fileID,
        path: String = #filePath, line: Int = #line, column: Int = #column
    ) -> ToolResult {
        let place = SourceLocation(fileID: file, filePath: path, line: line, column: column)
        for text in texts { require(!printed.contains(text), "said: \(text)", what, place) }
        return self
    }

    /// Expects fields of the JSON document.
    @discardableResult
    package func json(
        has fields: KeyValuePairs<String, any Equatable>, for what: String? = nil,
        file: String = #fileID, path: String = #filePath, line: Int = #line, column: Int = #column
    ) -> ToolResult {
        let place = SourceLocation(fileID: file, filePath: path, line: line, column: column)
        expect(fields, in: json, what, place)
        return self
    }

    /// Expects fields of one of the document's `apps`.
    @discardableResult
    package func app(
        _ index: Int = 0, has fields: KeyValuePairs<String, any Equatable>,
        for what: String? = nil, file: String = #fileID, path: String = #filePath,
        line: Int = #line, column: Int = #column
    ) -> ToolResult {
        let place = SourceLocation(fileID: file, filePath: path, line: line, column: column)
        expect(fields, in: app(index), what, place)
        return self
    }

    private func expect(
        _ fields: KeyValuePairs<String, any Equatable>, in object: [String: Any], _ what: String?,
        _ place: SourceLocation
    ) {
        func isFound<T: Equatable>(_ value: T, _ name: String) -> Bool {
            object[name] as? T == value
        }
        for (name, value) in fields {
            require(isFound(value, name), "\(name) is not \(value)", what, place)
        }
    }
}

extension ToolStage {
    /// The holds, as `holds list` has them.
    package func holds() throws -> [[String: Any]] {
        try json("holds", "list").ends(0).json["holds"] as? [[String: Any]] ?? []
    }

    /// The only hold, as `holds show` has it.
    package func shownHold() throws -> [String: Any] {
        let holds = try holds()
        guard holds.count == 1 else { throw TestFailure("\(holds.count) holds") }
        return try json("holds", "show", holds[0]["hold"] as? String ?? "").ends(0).json
    }
}
