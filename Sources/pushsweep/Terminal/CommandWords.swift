import Glibc

/// What was typed behind the program's name.
enum CommandWords {
    /// The words; nil where they cannot be found, which must not look like a call without any: that is
    /// a call for help, and ends with 0.
    static var typed: [String]? {
        if !CommandLine.arguments.isEmpty { return Array(CommandLine.arguments.dropFirst()) }
        // Swift looks for the arguments beside the environment on the stack, whose place it takes
        // from /proc/self/maps. It finds none without that file, nor when a preloaded library has
        // set a variable, since the environment lies elsewhere then (setenv(3)).
        let words = ofKernel()
        return words.isEmpty ? nil : Array(words.dropFirst())
    }

    /// Said where there are none.
    static let absence =
        "reading the command line: neither /proc/self/maps nor /proc/self/cmdline can be opened; "
        + "mount /proc, or allow more open files"

    /// All words, each of which ends with a zero byte, as proc(5) says.
    private static func ofKernel() -> [String] {
        let descriptor = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            // Words that were cut off may have been those that hold a run back.
            guard count >= 0 else { return [] }
            if count == 0 { break }
            bytes += buffer[..<count]
        }
        return bytes.split(separator: 0, omittingEmptySubsequences: false).dropLast()
            .map { String(decoding: $0, as: UTF8.self) }
    }
}
