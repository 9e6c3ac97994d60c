// The files of `environments --sql`: one with the statements that move the proven rows, and beside it one with those that
// take them back. Whole tokens stand in both, so nobody else may read them.

import Database
import Encodings
import Findings
import Glibc
import Operations
import TokenTable

/// Writes the statements of some apps into two files.
struct MoveFiles {
    /// Rows of one transaction.
    static let rows = 1_000

    let path: String
    let engine: SQLDialect.Engine
    /// Where the statements back are: the same name with `.back`.
    var back: String { "\(path).back" }

    /// Requires that neither file is there: the way back of an earlier move may stand in one.
    ///
    /// - Throws: exit 64, and 73 for a folder that cannot be written.
    func requireNew() throws(RunFailure) {
        guard access(path.parentPath, W_OK) == 0 else {
            throw RunFailure(
                .cannotCreate, .report,
                "writing the statements that move rows to \(path): "
                    + "\(String(cString: strerror(errno)).lowercased()); name a file in a folder that can be written"
            )
        }
        for file in [path, back] {
            var found = stat()
            guard lstat(file, &found) != 0 else {
                throw RunFailure(
                    .usage, .report,
                    "writing the statements that move rows to \(path): \(file) is there already, and the way back of an "
                        + "earlier move may stand in it; name another file")
            }
        }
    }

    /// Removes the files that this run wrote, where they have no statement.
    func remove() {
        unlink(path)
        unlink(back)
    }

    /// Collects what the body writes, and replaces both files together at its end: that with the way back first.
    func replace(_ body: (inout Statements) throws -> Void) throws {
        let content = "the statements that move rows back"
        try ReplacedFile(path, of: "the statements that move rows", mode: 0o600).replace {
            append in
            try ReplacedFile(back, of: content, mode: 0o600).replace { appendBack in
                try withoutActuallyEscaping(append) { append in
                    try withoutActuallyEscaping(appendBack) { appendBack in
                        var statements = Statements(self, append, appendBack)
                        try statements.begin()
                        try body(&statements)
                        try statements.end()
                        try statements.restore()
                    }
                }
            }
        }
    }

    /// Takes statements, and writes them in transactions.
    struct Statements {
        private let files: MoveFiles
        private let move, back: (String) throws -> Void
        /// Rows of the open transaction.
        private var open = 0

        fileprivate init(
            _ files: MoveFiles, _ move: @escaping (String) throws -> Void,
            _ back: @escaping (String) throws -> Void
        ) {
            (self.files, self.move, self.back) = (files, move, back)
        }

        private func both(_ text: String) throws {
            try move(text)
            try back(text)
        }

        fileprivate func begin() throws {
            try move(
                """
                -- Gives rows the other environment, each only as long as key, token, environment and registration are as
                -- they were read. \(files.back.lastName.printable) takes the same rows back. Run it with a client that stops at the
                -- first error; print it again where one was refused. Whole device tokens: keep it secret.

                """)
            try back(
                """
                -- Takes back what \(files.path.lastName.printable) did; run it after that file only. Whole device tokens: keep it secret.

                """)
            for statement in MoveStatements.frame(files.engine).before {
                try both(statement + ";\n")
            }
        }

        fileprivate func restore() throws {
            for statement in MoveStatements.frame(files.engine).after {
                try both(statement + ";\n")
            }
        }

        /// Begins an app.
        mutating func begin(_ pair: EnvironmentPair) throws {
            try end()
            try move(
                "-- \("\(pair.partition)".printable) to \(pair.stored.elsewhere?.environment ?? "")\n"
            )
            try back("-- \("\(pair.partition)".printable), back\n")
        }

        /// Adds the statements of one row.
        mutating func add(_ row: (move: String, back: String)) throws {
            if open == 0 { try both(files.engine == .sqlite ? "BEGIN;\n" : "START TRANSACTION;\n") }
            try move(row.move + ";\n")
            try back(row.back + ";\n")
            open += 1
            if open == MoveFiles.rows { try end() }
        }

        mutating func end() throws {
            guard open > 0 else { return }
            try both("COMMIT;\n")
            open = 0
        }
    }
}
