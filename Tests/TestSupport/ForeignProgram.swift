import Foundation

/// Programs that we did not write, as peers of ours.
package enum ForeignProgram: String, Sendable {
    /// Node.js with its module http2.
    case node = "/usr/bin/node"
    /// The load generator of nghttp2.
    case h2load = "/usr/bin/h2load"
    /// The tracer of system calls, which can also spoil them.
    case strace = "/usr/bin/strace"
    /// The compiler for C.
    case cc = "/usr/bin/cc"

    /// Whether it is there.
    package var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: rawValue) }

    /// Said by tests that are skipped.
    package var absence: String { "\(rawValue) is not installed" }

    /// Runs it to its end.
    package func run(_ arguments: [String]) throws -> ToolResult {
        try RunningTool(program: URL(fileURLWithPath: rawValue), arguments).wait()
    }

    /// Starts it.
    package func start(_ arguments: [String]) throws -> RunningTool {
        try RunningTool(program: URL(fileURLWithPath: rawValue), arguments)
    }
}
