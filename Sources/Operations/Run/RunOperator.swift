import Glibc

/// The person or service that runs the program, for records: `ada as pushsweep on pts/3`,
/// `pushsweep by systemd`, `pushsweep without a terminal`.
package struct RunOperator: Hashable, Sendable, CustomStringConvertible {
    /// The account of the process.
    package let user: String
    /// The account that became this one with sudo; nil where none did.
    package let person: String?
    /// The terminal, such as `pts/3`; nil without one.
    package let terminal: String?
    /// The service manager that started it; nil where none is known.
    package let service: String?

    /// Describes an operator.
    package init(user: String, person: String?, terminal: String?, service: String?) {
        self.user = user
        self.person = person
        self.terminal = terminal
        self.service = service
    }

    /// The operator of this process. systemd sets `INVOCATION_ID`, which login shells may inherit,
    /// so a terminal counts first.
    package static func current(_ environment: [String: String]) -> RunOperator {
        let account = getpwuid(geteuid()).map { String(cString: $0.pointee.pw_name) }
        let terminal = (0...2).lazy.compactMap { terminalName(of: $0) }.first
        var service: String?
        if environment["KUBERNETES_SERVICE_HOST"] != nil {
            service = "Kubernetes"
        } else if environment["INVOCATION_ID"] != nil {
            service = "systemd"
        }
        let person = environment["SUDO_USER"]
        return RunOperator(
            user: account ?? "\(geteuid())", person: person?.isEmpty == false ? person : nil,
            terminal: terminal, service: service)
    }

    private static func terminalName(of descriptor: Int32) -> String? {
        var name = [CChar](repeating: 0, count: 256)
        guard isatty(descriptor) == 1, ttyname_r(descriptor, &name, name.count) == 0 else {
            return nil
        }
        let path = String(
            decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        return path.hasPrefix("/dev/") ? String(path.dropFirst(5)) : path
    }

    /// The operator in words, at most 200 characters.
    package var description: String {
        var text = person.map { "\($0) as \(user)" } ?? user
        if let terminal {
            text += " on \(terminal)"
        } else if let service {
            text += " by \(service)"
        } else {
            text += " without a terminal"
        }
        return String(text.printable.prefix(200))
    }
}
