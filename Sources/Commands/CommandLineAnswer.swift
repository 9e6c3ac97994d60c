// What a command line is worth is known before a file, a database or a stream is touched: it is a command to
// run, a text to show, or a mistake. This file decides it and writes nothing. `Pushsweep` acts on it, and tests
// ask it in their own process, about each word that a person may type.

import ArgumentParser
import Looks
import Operations
import Settings

/// What the words of a command line are answered with.
package enum CommandLineAnswer {
    /// They name a job, which is run and says itself how it ended.
    case command(any ParsableCommand)
    /// Lines for stdout, which a terminal breaks at its width; the process ends with 0.
    case shown([String])
    /// A text for stdout, printed as it is; the process ends with 0.
    case printed(String)
    /// A mistake in the words: lines for stderr in front of the closing line; the process ends with 64.
    case refused([String])

    /// Reads the words behind the program's name. The parser breaks a help at 80 columns, also inside of its
    /// example; for a terminal the help is lines that are broken as reports are.
    package init(_ words: [String], atTerminal: Bool) {
        if let help = Self.help(words) {
            self = help
            return
        }
        do {
            var command = try Pushsweep.parseAsRoot(words)
            // The parser's own command writes nothing, and throws the help.
            if !Pushsweep.has(type(of: command)) { try command.run() }
            self = Self.emptyWord(words).map(Self.refused) ?? .command(command)
        } catch {
            self = Self.thrown(error, by: words, atTerminal: atTerminal)
        }
    }

    /// What the parser says instead of a command, or a command that finds a mistake in its words: a help, the
    /// version, a script for a shell, a mistake.
    static func thrown(_ error: any Error, by words: [String], atTerminal: Bool) -> Self {
        if Pushsweep.exitCode(for: error).rawValue == ExitStatus.usage.rawValue {
            return .refused(mistake(error, in: words))
        }
        guard atTerminal else { return .printed(Pushsweep.fullMessage(for: error)) }
        let text = Pushsweep.fullMessage(for: error, columns: 10_000)
        guard text.hasPrefix("OVERVIEW: ") else { return .printed(text) }
        return .shown(
            text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init))
    }

    /// The answer to a program that is called alone, or asked about exit codes, a rule, or a word that is no
    /// command; nil where the parser answers.
    private static func help(_ words: [String]) -> Self? {
        if words.isEmpty {
            return .shown(HelpText.firstDay(Pushsweep.configuration.abstract))
        }
        switch HelpRequest(words, of: Pushsweep.self) {
        case .exitCodes: return .shown(HelpText.exitCodes)
        case .rules: return .shown(RuleBook.index)
        case .rule(let rule): return .shown(rule.lines)
        case .unknown(let message):
            return .refused([message, "  See 'pushsweep help' for all commands."])
        case .command, nil: return nil
        }
    }

    /// The parser's error message, line by line. The message repeats words of the command line, and
    /// a line break in one of them would look like a line of the message. So when a word has such a
    /// character, the words are parsed again with each of these characters escaped.
    private static func mistake(_ error: any Error, in words: [String]) -> [String] {
        let printable = words.map(\.printable)
        var said = error
        if printable != words {
            do {
                _ = try Pushsweep.parseAsRoot(printable)
                return ["Error: a word of the command line has an unprintable character"]
            } catch {
                said = error
            }
        }
        var lines = Pushsweep.fullMessage(for: said)
            .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if let command = command(near: words) { lines[0] += "; did you mean '\(command)'?" }
        return lines
    }

    /// The command that a mistyped one among the words probably means; nil when each is known, or
    /// none is near.
    private static func command(near words: [String]) -> String? {
        let (commands, unknown) = Pushsweep.path(words)
        let known = commands.last?.configuration.subcommands ?? []
        guard let unknown, !known.isEmpty, !unknown.hasPrefix("-") else { return nil }
        return NearestName.find(unknown, in: known.compactMap { $0.configuration.commandName })
    }

    /// The mistake of an empty word, which is mostly a variable of a script that is not set; nil where there is
    /// none. No argument has a meaning when it is empty. The words were parsed before, so those in front are a
    /// command.
    private static func emptyWord(_ words: [String]) -> [String]? {
        guard let place = words.firstIndex(of: "") else { return nil }
        let before = words[..<place]
        let last = before.contains("--") ? nil : before.last
        let option = last.flatMap { $0.hasPrefix("--") ? $0 : nil }
        let command = Pushsweep.path(words).commands.compactMap { $0.configuration.commandName }
        return [
            "Error: " + (option.map { "the value of \($0) is empty" } ?? "an argument is empty")
                + "; perhaps a variable of a script is not set",
            "  See '\(command.joined(separator: " ")) --help' for more information.",
        ]
    }
}
