import ArgumentParser
import Database
import Looks
import Operations
import Settings
import TokenTable

/// `pushsweep schema`: the tables of the token database.
struct SchemaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Print or create the tables in the token database.",
        subcommands: [Print.self, Apply.self])

    /// `pushsweep schema print`: prints statements and executes none.
    struct Print: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "print",
            abstract: "Print the statements for the whole schema, for an upgrade, or for a view.",
            discussion: HelpText.whole(PackageResources.schema_print_txt))

        @OptionGroup var common: CommonOptions

        @Flag(help: "Only the tables that pushsweep keeps beside yours, not active_users.")
        var sideTables = false

        @Flag(help: "What the existing token table lacks.")
        var upgrade = false

        @Flag(help: "A view of the rows that may be sent to.")
        var view = false

        @Option(help: ArgumentHelp("The name of the view.", valueName: "name"))
        var viewName = SendableView.usualName

        func validate() throws {
            guard [sideTables, upgrade, view].count(where: { $0 }) <= 1 else {
                throw ValidationError("give one of --side-tables, --upgrade and --view")
            }
            guard view || viewName == SendableView.usualName else {
                throw ValidationError("--view-name is the name of the view; give --view too")
            }
        }

        func run() throws {
            try common.finish(printing: { settings, _ in try report(settings) })
        }

        private func report(_ settings: Settings) throws(RunFailure) -> SchemaReport {
            if upgrade { return try SchemaWork.upgrade(settings) }
            if view { return try SchemaWork.view(named: viewName, settings) }
            let location = settings.store.location
            return SchemaReport(
                sideTables
                    ? SchemaScript.sideTables(for: location)
                    : SchemaScript.whole(
                        for: location, environments: settings.store.mapping.environmentValues),
                executed: false)
        }
    }

    /// `pushsweep schema apply`: creates the missing tables.
    struct Apply: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "apply",
            abstract: "Add what is missing to the token database, and print the statements.",
            discussion: HelpText.whole(PackageResources.schema_apply_txt))

        @OptionGroup var common: CommonOptions

        @Flag(help: "Create the token table too, under the name in the settings, if it is missing.")
        var createTokenTable = false

        @Flag(help: "Add missing columns and the token index to an existing token table too.")
        var upgrade = false

        @Flag(help: "Print the statements and execute none.")
        var dryRun = false

        func run() throws {
            try common.finish(printing: { settings, _ in
                let script = try SchemaWork.apply(
                    settings, creatingTokens: createTokenTable, upgrading: upgrade, dryRun: dryRun)
                let count = script.statements.count
                let done =
                    "\(count.counting("statement")) executed. Next: the account's rights by `pushsweep check --grants`, "
                    + "then `pushsweep check`"
                return SchemaReport(
                    script, executed: !dryRun, notes: dryRun || count == 0 ? [] : [done])
            })
        }
    }
}
