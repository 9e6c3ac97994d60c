import ArgumentParser
import AuditFormats
import Database
import Encodings
import Findings
import FoundationEssentials
import Glibc
import Looks
import Operations
import SchemaLook
import TokenTable

/// `pushsweep init`: looks at a database that no settings file describes, and changes nothing in it.
struct InitCommand: ParsableCommand, JobOptions {
    static let configuration = CommandConfiguration(
        commandName: "init",
        abstract:
            "Look at a database for the first time: find the tokens and propose the settings.",
        discussion: HelpText.whole(PackageResources.init_txt))

    @Argument(
        help: ArgumentHelp(
            "The database: mysql://user@host/db, mysql+unix://user@/path/to.sock?db=db or "
                + "sqlite:///path, without a password.", valueName: "address"))
    var address: String

    @Option(help: ArgumentHelp("The table of tokens, where several may be.", valueName: "name"))
    var table: String?

    @Option(help: ArgumentHelp("The column of tokens, where several may be.", valueName: "name"))
    var column: String?

    @Option(
        help: ArgumentHelp(
            "Table and column of tokens in one: an answer, like the next three.",
            valueName: "table.column"))
    var token: String?

    @Option(
        help: ArgumentHelp(
            "The time at which a device registered last.", valueName: "column|none"))
    var registeredAt: String?

    @Option(
        help: ArgumentHelp(
            "What the application reads as the mark: two values, or a time; none: no column of the table.",
            valueName: "column=living/dead|column|none"))
    var mark: String?

    @Option(
        help: ArgumentHelp(
            "What tells rows of Apple's devices from others.", valueName: "column=word|none"))
    var platform: String?

    @Option(
        help: ArgumentHelp(
            "Write the settings into this new file, in place of printing them.", valueName: "file"),
        completion: .file())
    var output: String?

    @Option(
        help: ArgumentHelp(
            "Write a report on the table into this file: .html, .md, .txt or .json.",
            valueName: "file"), completion: .file())
    var report: String?

    @Option(
        help: ArgumentHelp(
            "The file whose only line is the password; else $PUSHSWEEP_STORE_PASSWORD, else a question "
                + "on the terminal.", valueName: "file"), completion: .file())
    var passwordFile: String?

    @Option(
        help: ArgumentHelp(
            "PEM file of the authorities that may sign the database's certificate.",
            valueName: "file"), completion: .file())
    var ca: String?

    @Option(
        help: ArgumentHelp(
            "Whether the database has to prove its name with a certificate.",
            valueName: "verify|off"))
    var tls: String?

    @Option(
        help: ArgumentHelp(
            "Print the result as text or as one JSON object per line.", valueName: "text|json"))
    var format = OutputFormat.text

    @Option(help: colourHelp) var color = ColourChoice.auto

    @Flag(help: verboseHelp) var verbose = false

    var config: String? { nil }

    func validate() throws {
        guard !address.isEmpty else { throw ValidationError("the address is empty") }
        for (name, text) in [
            ("table", table), ("column", column), ("output", output), ("ca", ca),
            ("report", report),
        ] where text == "" {
            throw ValidationError("--\(name) is empty; give a name, or leave it out")
        }
        guard token == nil || table == nil && column == nil else {
            throw ValidationError("--token names table and column: leave --table and --column out")
        }
        _ = try answers()
        if let report { try AuditFormat.check(report) }
        guard output == nil || output != report else {
            throw ValidationError("--output and --report name one file; give each its own")
        }
        guard output != "-" else {
            throw ValidationError("--output is a file; without it the settings are printed")
        }
        guard tls == nil || ["verify", "off"].contains(tls) else {
            throw ValidationError("--tls is verify or off")
        }
    }

    func run() throws {
        try finish { context in
            var wish = FirstLookWish(address: address)
            (wish.answers, wish.output) = (try answers(), output)
            (wish.passwordFile, wish.ca, wish.tls) = (passwordFile, ca, tls)
            wish.report = report
            let look = try FirstLook.run(
                wish, environment: environment, version: Version.name, context)
            print(look.report)
            if let report { try write(look, to: report) }
            return .done
        }
    }

    /// Writes the report on the table, once the look is printed.
    private func write(_ look: FirstLook.Result, to file: String) throws {
        guard let audit = look.audit else {
            throw look.failure
                ?? RunFailure(
                    .configuration, .report,
                    "reporting on \(look.report.table ?? "the table"): "
                        + (look.report.uncounted ?? "it was not counted"))
        }
        try ReplacedFile(file, of: "the report").replace(
            with: audit.document(AuditFormat(file: file) ?? .text))
    }

    /// What the options name.
    private func answers() throws -> LookAnswers {
        var answers = LookAnswers()
        func take(_ option: String, _ text: String?, _ read: (String) throws -> Void) throws {
            guard let text else { return }
            do {
                try read(text)
            } catch let refusal as Refusal {
                throw ValidationError("--\(option) \(refusal)")
            } catch let failure as StoreFailure {
                throw ValidationError(failure.sentence)
            }
        }
        try take("table", table) { answers.table = try TableName($0, setting: "--table") }
        answers.token = column
        try take("token", token) { try answers.setToken($0) }
        try take("registered-at", registeredAt) { try answers.setRegistration($0) }
        try take("mark", mark) { try answers.setMark($0) }
        try take("platform", platform) { try answers.setPlatform($0) }
        return answers
    }

    /// The variables, with the password that a person gives where nothing else has it.
    private var environment: [String: String] {
        var variables = ProcessInfo.processInfo.environment
        guard variables["PUSHSWEEP_STORE_PASSWORD"] == nil, passwordFile == nil,
            address.hasPrefix("mysql"), StandardStreams.canAsk
        else { return variables }
        // An empty answer: an account without a password.
        if let answer = getpass("Password of the account (empty for none): "), answer.pointee != 0 {
            variables["PUSHSWEEP_STORE_PASSWORD"] = String(cString: answer)
        }
        return variables
    }
}
