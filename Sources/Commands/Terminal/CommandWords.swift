import CCommit
import Database
import Glibc
import SecureTransport
import YAML

/// The words of the command line after the program's name.
enum CommandWords {
    /// The words; nil when they cannot be found. That must not look like a call without words,
    /// which prints the help and ends with 0.
    static var typed: [String]? {
        if !CommandLine.arguments.isEmpty { return Array(CommandLine.arguments.dropFirst()) }
        // Swift looks for the arguments beside the environment on the stack, at an address from
        // /proc/self/maps. It finds none without that file, nor when a preloaded library has set a
        // variable, since the environment has another address then (setenv(3)).
        let words = ofKernel()
        return words.isEmpty ? nil : Array(words.dropFirst())
    }

    /// The message for words that cannot be found.
    static let absence =
        "reading the command line: neither /proc/self/maps nor /proc/self/cmdline can be opened; "
        + "mount /proc, or allow more open files"

    /// All words from /proc, where each ends with a zero byte (proc(5)).
    private static func ofKernel() -> [String] {
        let descriptor = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            // Words that were cut off may be options that restrain a run, such as --dry-run.
            guard count >= 0 else { return [] }
            if count == 0 { break }
            bytes += buffer[..<count]
        }
        return bytes.split(separator: 0, omittingEmptySubsequences: false).dropLast()
            .map { String(decoding: $0, as: UTF8.self) }
    }
}

/// What `--version` prints: this program, the commit it was built from, and the libraries that this
/// process has loaded.
enum Version {
    /// The version by CHANGELOG.md.
    private static let number = "0.4.0-dev"

    /// The commit of the sources. Scripts that build for an installation name it in
    /// `PUSHSWEEP_COMMIT`; `-modified` at its end means uncommitted changes. `unknown` after a
    /// plain `swift build`.
    private static let commit = String(cString: pushsweep_commit())

    /// The version with the beginning of the commit where the build knows it.
    private static let whole =
        commit.utf8.elementsEqual("unknown".utf8)
        ? number
        : "\(number)+\(commit.prefix(7))" + (commit.hasSuffix("-modified") ? "-modified" : "")

    /// As reports name the program.
    static let name = "pushsweep \(whole)"

    /// One fact a line.
    static let text = """
        \(name)
        commit \(commit)
        OpenSSL \(TLSClientContext.libraryVersion)
        libmariadb \(MariaDBConnection.libraryVersion)
        nghttp2 \(HTTP2Library.version)
        SQLite \(SQLiteConnection.libraryVersion)
        libyaml \(YAMLNode.libraryVersion)
        """
}
