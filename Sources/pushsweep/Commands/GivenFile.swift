import Foundation
import Operations

/// A file that the command line names, which may be a pipe; `-` is standard input.
struct GivenFile {
    /// The path as given.
    let path: String
    /// What it should have, for messages.
    let content: String

    /// All its bytes.
    ///
    /// - Throws: usage for a file that cannot be read or has more than `mostBytes`.
    func bytes(atMost mostBytes: Int) throws -> [UInt8] {
        guard
            let file = path == "-" ? .standardInput : FileHandle(forReadingAtPath: path)
        else {
            throw refusal("\(String(cString: strerror(errno)).lowercased()); check the path")
        }
        var bytes: [UInt8] = []
        do {
            while bytes.count <= mostBytes,
                let more = try file.read(upToCount: 1 << 20), !more.isEmpty
            {
                bytes += more
            }
        } catch {
            throw refusal("it is a folder or cannot be read; check the path")
        }
        guard bytes.count <= mostBytes else {
            throw refusal("it has more than \(mostBytes >> 20) MiB, which is the limit")
        }
        return bytes
    }

    private func refusal(_ cause: String) -> RunFailure {
        RunFailure(.usage, .settings, "reading \(content) from \(path): \(cause)")
    }
}
