import Operations

/// The section about exit codes in every help text.
enum HelpText {
    static let exitStatus =
        ExitStatus.allCases.reduce(into: "EXIT STATUS\n") { text, code in
            let number = String(code.rawValue)
            text += "  " + number + String(repeating: " ", count: 4 - number.count) + code.meaning
            text += "\n"
        }
        + "\nAny other code means failure. After a failure the last line of stderr is one summary "
        + "for scripts."
}
