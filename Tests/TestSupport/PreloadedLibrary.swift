import Foundation

/// A library of C that takes the place of calls of a program that has it preloaded.
package enum PreloadedLibrary: String {
    /// A disk that forgets what was not synced.
    case powerCut = "power-cut"
    /// A log of the statements on SQLite.
    case sqliteLog = "sqlite-log"

    /// Where the compiled library is; nil without a compiler.
    package var path: String? {
        switch self {
        case .powerCut: Self.powerCutPath
        case .sqliteLog: Self.sqliteLogPath
        }
    }

    /// The message of skipped tests.
    package static let absence =
        "no C compiler that can make a library: run scripts/bootstrap --tests"

    // Lives as long as the process, so the libraries stay while tests run.
    private static let folder = try? TemporaryFolder()
    private static let powerCutPath = PreloadedLibrary.powerCut.compiled()
    private static let sqliteLogPath = PreloadedLibrary.sqliteLog.compiled()

    private func compiled() -> String? {
        guard ForeignProgram.cc.isInstalled, let folder = Self.folder else { return nil }
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "Preloaded/\(rawValue).c").path
        let library = folder.file("\(rawValue).so")
        let result = try? ForeignProgram.cc.run([
            "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl",
        ])
        return result?.exit == 0 ? library : nil
    }
}
