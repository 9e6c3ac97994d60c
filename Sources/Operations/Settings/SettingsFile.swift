import Glibc

/// Finds and reads the files of the settings.
enum SettingsFile {
    /// The variable that names the settings file.
    static let variable = "PUSHSWEEP_CONFIG"
    /// Largest settings file read, in bytes: a thousand times the sample.
    static let largest = 4 << 20
    /// Largest password file read, in bytes.
    static let largestSecret = 64 << 10

    /// Why a file could not be read.
    enum ReadFailure: Error, Equatable {
        case missing
        case denied
        case readableByOthers(mode: mode_t)
        case tooLarge(Int)
        case notText
        case other(String)
    }

    /// The text of a settings file.
    static func text(_ path: String) throws(ReadFailure) -> String {
        try decoded(contents(path, limit: largest) { _ throws(ReadFailure) in })
    }

    /// The only line of a file that holds a secret, without its line end. As ssh does with keys, a
    /// file that its group or others can read is refused: by then the secret is none.
    static func secret(_ path: String) throws(ReadFailure) -> String {
        let bytes = try contents(path, limit: largestSecret) { status throws(ReadFailure) in
            guard status.st_mode & 0o077 == 0 else {
                throw .readableByOthers(mode: status.st_mode & 0o777)
            }
        }
        var text = try decoded(bytes)
        // One line end only: a password may end in a space, and editors add exactly one.
        if text.unicodeScalars.last == "\n" { text.unicodeScalars.removeLast() }
        if text.unicodeScalars.last == "\r" { text.unicodeScalars.removeLast() }
        return text
    }

    private static func decoded(_ bytes: [UInt8]) throws(ReadFailure) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notText }
        return text
    }

    /// Reads through one descriptor, so that what was checked is what is read.
    private static func contents(
        _ path: String, limit: Int, check: (stat) throws(ReadFailure) -> Void
    ) throws(ReadFailure) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { throw failure(errno) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(errno) }
        guard status.st_mode & S_IFMT != S_IFDIR else { throw .other("it is a folder") }
        try check(status)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure(errno) }
            guard count > 0 else { return bytes }
            bytes += buffer.prefix(count)
            guard bytes.count <= limit else { throw .tooLarge(limit) }
        }
    }

    private static func failure(_ code: Int32) -> ReadFailure {
        switch code {
        case ENOENT, ENOTDIR: .missing
        case EACCES, EPERM: .denied
        default: .other(String(cString: strerror(code)).lowercased())
        }
    }
}

extension SettingsFile.ReadFailure {
    /// The problem in one sentence about a file.
    func problem(reading what: String) -> SettingsFailure.Problem {
        switch self {
        case .missing:
            .init(
                kind: .configuration,
                description: "\(what): there is no such file; create it or correct the path")
        case .denied:
            .init(
                kind: .permission,
                description: "\(what): this user may not read it; change its owner or mode")
        case .readableByOthers(let mode):
            .init(
                kind: .permission,
                description: "\(what): others may read it (mode 0\(String(mode, radix: 8))); "
                    + "give it mode 0600 and, if the secret may have been seen, a new secret")
        case .tooLarge(let limit):
            .init(
                kind: .configuration,
                description: "\(what): it is larger than \(SettingSize.text(limit)); "
                    + "check that this is the right file")
        case .notText:
            .init(
                kind: .configuration,
                description: "\(what): it is not valid UTF-8; save it as UTF-8")
        case .other(let reason):
            .init(kind: .configuration, description: "\(what): \(reason); check the path")
        }
    }
}
