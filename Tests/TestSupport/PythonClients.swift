import Foundation

/// Push clients of other projects that are written in Python. `scripts/bootstrap --tests` installs
/// them into a virtual environment of this folder; without it their tests are skipped.
package enum PythonClients {
    /// The interpreter of the virtual environment, or that of `PUSHSWEEP_TEST_PYTHON`.
    private static let interpreter =
        Environment.text("PUSHSWEEP_TEST_PYTHON")
        ?? URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../../.build-clients").standardizedFileURL
        // Not standardized: a link to the system's Python, which has none of the modules.
        .appending(path: "bin/python").path

    /// Whether the interpreter can import a module.
    package static func have(_ module: String) -> Bool {
        guard FileManager.default.isExecutableFile(atPath: interpreter) else { return false }
        let program =
            "import importlib.util, sys; sys.exit(not importlib.util.find_spec('\(module)'))"
        return (try? start(["-c", program]).wait().exit) == 0
    }

    /// The message of tests that are skipped without a module.
    package static func absence(of module: String) -> String {
        "the Python module \(module) is not installed; run scripts/bootstrap --tests"
    }

    /// Starts a program with its arguments.
    package static func start(_ arguments: [String]) throws -> RunningTool {
        try RunningTool(program: URL(fileURLWithPath: interpreter), arguments)
    }
}
