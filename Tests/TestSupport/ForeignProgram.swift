import Foundation

/// Programs of other projects, as peers of ours.
package enum ForeignProgram: String, Sendable {
    /// Node.js with its module http2.
    case node = "/usr/bin/node"
    /// The load generator of nghttp2.
    case h2load = "/usr/bin/h2load"
    /// The tracer of system calls, which can also make them fail.
    case strace = "/usr/bin/strace"
    /// The interpreter of PHP.
    case php = "/usr/bin/php"
    /// The interpreter of Python.
    case python = "/usr/bin/python3"
    /// The interpreter of Ruby.
    case ruby = "/usr/bin/ruby"
    /// The formatter of Go, which parses a file.
    case gofmt = "/usr/bin/gofmt"
    /// The lister of the libraries that a program needs.
    case ldd = "/usr/bin/ldd"
    /// The compiler for C.
    case cc = "/usr/bin/cc"

    /// Whether the program is installed.
    package var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: rawValue) }

    /// The message of tests that are skipped without it.
    package var absence: String { "\(rawValue) is not installed" }

    /// Runs the program to its end.
    package func run(_ arguments: [String]) throws -> ToolResult {
        try RunningTool(program: URL(fileURLWithPath: rawValue), arguments).wait()
    }

    /// Starts the program.
    package func start(_ arguments: [String]) throws -> RunningTool {
        try RunningTool(program: URL(fileURLWithPath: rawValue), arguments)
    }
}
