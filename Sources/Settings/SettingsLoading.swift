import Encodings
import Glibc
import SecureTransport

extension Settings {
    /// The machine's part of the settings; tests replace it.
    package struct Surroundings: Sendable, Equatable {
        /// The user's home folder.
        var homeDirectory: String
        /// Whether the user is root, who uses the machine's state folder.
        var isRoot: Bool
        /// The folder at which relative paths start without a settings file.
        var workingDirectory: String
        /// The file that is read if none is named; may be missing.
        var systemFile = "/etc/pushsweep/pushsweep.yaml"

        /// This process: home from `HOME` if it is absolute, else from the user database.
        static func current(_ environment: [String: String]) -> Surroundings {
            var home = environment["HOME"] ?? ""
            if !home.hasPrefix("/"), let entry = getpwuid(geteuid()),
                let folder = entry.pointee.pw_dir
            {
                home = String(cString: folder)
            }
            var working = "/"
            if let path = getcwd(nil, 0) {
                working = String(cString: path)
                free(path)
            }
            return Surroundings(
                homeDirectory: home.hasPrefix("/") ? home : "/", isRoot: geteuid() == 0,
                workingDirectory: working)
        }

        /// The default state folder: the machine's for root, else the user's (XDG Base Directory
        /// Specification, which says that relative paths are ignored).
        func state(_ environment: [String: String]) -> String {
            if isRoot { return "/var/lib/pushsweep" }
            if let folder = environment["XDG_STATE_HOME"], folder.hasPrefix("/") {
                return "\(folder)/pushsweep"
            }
            return "\(homeDirectory)/.local/state/pushsweep"
        }
    }

    /// Reads the settings: the file named by `configFile`, else by `PUSHSWEEP_CONFIG`, else the
    /// machine's if it exists, else the built-in defaults. The variables of `environment` override
    /// it. Reads the password file too, unless the environment holds the password.
    ///
    /// Throws all problems together. A named file that is missing is one of them.
    package static func load(
        configFile: String?, environment: [String: String], surroundings: Surroundings? = nil
    ) throws(SettingsFailure) -> Settings {
        let surroundings = surroundings ?? .current(environment)
        let named = configFile ?? environment[SettingsFile.variable]
        if let named, named.isEmpty {
            throw SettingsFailure(
                .configuration, "the name of the settings file is empty; name a file or none")
        }
        var path = named ?? surroundings.systemFile
        if !path.hasPrefix("/") { path = "\(surroundings.workingDirectory)/\(path)" }
        // A folder on the way that cannot be passed may hide a file.
        if named == nil, access(path, F_OK) != 0, errno == ENOENT {
            return try load(
                text: "", file: nil, environment: environment, surroundings: surroundings)
        }
        return try load(
            text: SettingsFile.text(path, as: "settings file"), file: path,
            environment: environment, surroundings: surroundings)
    }

    /// Reads settings from a text that no file has yet, with the variables of `environment`. Relative paths
    /// start at the working folder.
    ///
    /// - Throws: all problems together.
    package static func load(
        text: String, environment: [String: String]
    ) throws(SettingsFailure) -> Settings {
        try load(
            text: text, file: nil, environment: environment,
            surroundings: .current(environment))
    }

    /// Reads settings from a text as the content of `file`, an absolute path for relative paths
    /// and messages; nil for no file.
    static func load(
        text: String, file: String?, environment: [String: String], surroundings: Surroundings
    ) throws(SettingsFailure) -> Settings {
        var problems: SettingsProblems = []
        let name = file ?? "built-in settings"
        var document = SettingsDocument(text, name: name, problems: &problems)
        // After an error of YAML itself the file's content is unknown. Messages about missing
        // settings would hide that error.
        guard !document.isUnreadable else { throw SettingsFailure(problems: problems) }
        let labels = AppLabel.labels(document)
        document.overlay(environment, labels, &problems)
        let folder = file.map(folder) ?? surroundings.workingDirectory
        var resolved = SettingsResolver(
            document, labels: labels, folder: folder, state: surroundings.state(environment),
            &problems)
        resolved.checkTogether(&problems)
        resolved.readPassword(&problems)
        resolved.checkHook(in: surroundings.workingDirectory, &problems)
        guard problems.isEmpty else { throw SettingsFailure(problems: problems) }
        return resolved.settings(file: file)
    }

    private static func folder(_ file: String) -> String {
        guard let slash = file.utf8.lastIndex(of: UInt8(ascii: "/")), slash != file.startIndex
        else { return "/" }
        return String(file[..<slash])
    }
}

/// Finds and reads the files of the settings.
enum SettingsFile {
    /// The variable that names the settings file.
    static let variable = "PUSHSWEEP_CONFIG"
    /// Largest settings file read, in bytes: a thousand times the sample.
    static let largest = 4 << 20
    /// Largest password file read, in bytes.
    static let largestSecret = 64 << 10

    /// The text of a settings file or an ignore file. Only root and this user may be able to change it.
    static func text(_ path: String, as what: String) throws(SettingsFailure) -> String {
        try decoded("\(what) \(path)") { try GuardedFile.readDeciding(path, limit: largest) }
    }

    /// The only line of a file that holds a secret, without its line end. As ssh does with keys, a
    /// file that its group or others can read is refused: its secret may be known already.
    static func secret(_ path: String, as what: String) throws(SettingsFailure) -> String {
        var text = try decoded("\(what) \(path)") {
            try GuardedFile.readSecret(path, limit: largestSecret)
        }
        // One line end only: a password may end in a space, and editors add exactly one.
        if text.unicodeScalars.last == "\n" { text.unicodeScalars.removeLast() }
        if text.unicodeScalars.last == "\r" { text.unicodeScalars.removeLast() }
        return text
    }

    private static func decoded(
        _ what: String, _ read: () throws -> GuardedFile
    ) throws(SettingsFailure) -> String {
        do {
            let bytes = try TextStart.whole(read().bytes)
            if let text = String(validating: bytes, as: UTF8.self) { return text }
        } catch {
            let code = (error as? IdentityFailure)?.code
            let isOfAccess = code == .access || code == .changeable
            throw SettingsFailure(isOfAccess ? .permission : .configuration, "\(what): \(error)")
        }
        throw SettingsFailure(
            .configuration, "\(what): it is not valid UTF-8; save it as UTF-8")
    }
}
