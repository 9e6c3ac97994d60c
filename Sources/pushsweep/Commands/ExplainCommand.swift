import APNsProtocol
import ArgumentParser
import Operations

/// `pushsweep explain`: tells what happened to a token.
struct ExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Tell what happened to a token, and why a sender would send to it or not.",
        discussion: """
            Lists registrations, evidence with the rule that decided about it, holds, changes of \
            rows, undos, deletions and notifications in the order of time; then what is true now, and \
            what the next sweep would do. Needs SELECT only, locks nothing, and writes nothing. What \
            the account may not read is named.

            A token on the command line is seen by other users of the machine, and stays in the \
            history of the shell: give - or --token-file instead.

            Ends with 0 whether or not anything is known about the token.

            \(HelpText.exitStatus)
            """)

    @OptionGroup var common: CommonOptions

    @Argument(help: "The token in hex, given whole; - reads it from standard input.")
    var token: String?

    @Option(help: ArgumentHelp("A file with the token; - is standard input.", valueName: "file"))
    var tokenFile: String?

    @Option(
        help: ArgumentHelp(
            "Explain all tokens in the rows of this user, at most \(TokenSubject.mostTokens).",
            valueName: "id"))
    var user: String?

    @Flag(help: "Print device tokens whole; anyone who reads them can name devices.")
    var wholeTokens = false

    func validate() throws {
        guard [token, tokenFile, user].count(where: { $0 != nil }) == 1 else {
            throw ValidationError("name one of: a token, --token-file, --user")
        }
        guard user != "" else { throw ValidationError("--user is empty; give the id of a user") }
    }

    func run() throws {
        try common.finish { context in
            let wish = ExplainWish(try subject(context), wholeTokens: wholeTokens)
            common.print(try Explain.run(common.settings(), wish, context))
            return .done
        }
    }

    private func subject(_ context: RunContext) throws -> TokenSubject {
        if let user { return .user(user) }
        return .token(
            try GivenToken(text: token, file: tokenFile, name: "the token of the command line")
                .token(context))
    }
}
