import APNsProtocol
import ArgumentParser
import Looks
import Operations

/// `pushsweep explain`: tells what happened to a token.
struct ExplainCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Tell what happened to a token, and why a sender would send to it or not.",
        discussion: HelpText.whole(PackageResources.explain_txt))

    @OptionGroup var common: CommonOptions

    @Argument(
        help:
            "The token in hex, whole or its first digits as reports print them; - reads it from standard input."
    )
    var token: String?

    @Option(
        help: ArgumentHelp("A file with the token; - is standard input.", valueName: "file"),
        completion: .file())
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
            let subject = try subject(context)
            common.print(
                try Explain.run(common.settings(), subject, wholeTokens: wholeTokens, context))
            return .done
        }
    }

    private func subject(_ context: RunContext) throws -> TokenSubject {
        if let user { return .user(user) }
        return try GivenToken(text: token, file: tokenFile).subject(context)
    }
}
