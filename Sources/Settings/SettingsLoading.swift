import Glibc

extension Settings {
    /// What the machine contributes to the settings, so that tests can stand anywhere.
    package struct Surroundings: Sendable, Equatable {
        /// The user's home folder.
        package var homeDirectory: String
        /// Whether the user is root, whose state is the machine's.
        package var isRoot: Bool
        /// Where relative paths start when there is no settings file.
        package var workingDirectory: String
        /// The file read when none is named; may be missing.
        package var systemFile: String

        /// Describes surroundings.
        package init(
            homeDirectory: String, isRoot: Bool, workingDirectory: String,
            systemFile: String = "/etc/pushsweep/pushsweep.yaml"
        ) {
            self.homeDirectory = homeDirectory
            self.isRoot = isRoot
            self.workingDirectory = workingDirectory
            self.systemFile = systemFile
        }

        /// This process: home from `HOME` if it is absolute, else from the user database.
        package static func current(_ environment: [String: String]) -> Surroundings {
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

        /// The state folder that holds when none is written: the machine's for root, else the
        /// user's (XDG Base Directory Specification, which has relative paths ignored).
        func state(_ environment: [String: String]) -> String {
            if isRoot { return "/var/lib/pushsweep" }
            if let folder = environment["XDG_STATE_HOME"], folder.hasPrefix("/") {
                return "\(folder)/pushsweep"
            }
            return "\(homeDirectory)/.local/state/pushsweep"
        }
    }

    /// Reads the settings: the file named by `configFile`, else by `PUSHSWEEP_CONFIG`, else the
    /// machine's if it is there, else the built-in defaults; over it the variables of
    /// `environment`. Reads the password file too, unless the environment holds the password.
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
        let text: String
        do {
            text = try SettingsFile.text(path)
        } catch {
            guard named == nil, error == .refused(.missing) else {
                throw SettingsFailure(problems: [error.problem(reading: "settings file \(path)")])
            }
            return try load(
                text: "", file: nil, environment: environment, surroundings: surroundings)
        }
        return try load(
            text: text, file: path, environment: environment, surroundings: surroundings)
    }

    /// Reads settings from a text as if it stood in `file`, an absolute path by which relative
    /// paths and messages go; nil for no file.
    package static func load(
        text: String, file: String?, environment: [String: String], surroundings: Surroundings
    ) throws(SettingsFailure) -> Settings {
        var problems = SettingsProblems()
        let name = file ?? "built-in settings"
        var document = SettingsDocument(text, name: name, problems: &problems)
        // After an error of YAML itself nothing of the file is known, and complaints about what
        // seems to be missing would hide it.
        guard !document.isUnreadable else { throw SettingsFailure(problems: problems.all) }
        let labels = AppLabel.labels(document)
        let variables = SettingsVariables.ours(environment)
        if !variables.isEmpty {
            SettingsVariables(document, labels: labels).overlay(variables, on: &document, &problems)
        }
        let folder = file.map(folder) ?? surroundings.workingDirectory
        var resolved = SettingsResolver(
            document, labels: labels, folder: folder, state: surroundings.state(environment),
            &problems)
        SettingsRules(resolved, labels: labels).check(&problems)
        let password = resolved.password(&problems)
        guard problems.all.isEmpty else { throw SettingsFailure(problems: problems.all) }
        return SettingsBuilder(resolved).settings(
            file: file, apps: document.apps, password: password)
    }

    private static func folder(_ file: String) -> String {
        guard let slash = file.lastIndex(of: "/"), slash != file.startIndex else { return "/" }
        return String(file[..<slash])
    }
}

extension SettingsResolver {
    /// Why a file's content is no password.
    private static func fault(ofPassword text: String) -> String? {
        if text.isEmpty { return "is empty" }
        if text.utf8.contains(0) { return "holds a zero byte" }
        return text.contains(where: \.isNewline) ? "has several lines" : nil
    }

    /// The database password: the environment's, else the content of the password file.
    mutating func password(_ problems: inout SettingsProblems) -> Settings.Secret? {
        if case .secret(let secret)? = values["store.password"] { return secret }
        guard case .text(let path)? = values["store.password-file"] else { return nil }
        do {
            let text = try SettingsFile.secret(path)
            if let fault = Self.fault(ofPassword: text) {
                problems.add(
                    place("store.password-file"),
                    "store.password-file \(path) \(fault); it must hold the password and nothing else, in "
                        + "one line")
                return nil
            }
            tellOrigin("store.password", from: "store.password-file")
            return Settings.Secret(text)
        } catch {
            let problem = error.problem(reading: "store.password-file \(path)")
            problems.add(place("store.password-file"), problem.description, kind: problem.kind)
            return nil
        }
    }
}
