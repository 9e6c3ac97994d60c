import ArgumentParser
import Database
import Operations

/// `pushsweep schema`: the tables of the token database.
struct SchemaCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema",
        abstract: "Print or create the tables in the token database.",
        discussion: HelpText.exitStatus,
        subcommands: [Print.self, Apply.self])

    /// `pushsweep schema print`: prints the statements without a connection to the database.
    struct Print: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "print",
            abstract: "Print the statements for the whole schema; connects to nothing.",
            discussion: HelpText.exitStatus)

        @OptionGroup var common: CommonOptions

        @Flag(
            name: .long,
            help: "Only the tables that pushsweep keeps beside yours, not active_users.")
        var sideTables = false

        func run() throws {
            try common.finish { _ in
                let location = try common.settings().store.location
                let script =
                    sideTables
                    ? SchemaScript.sideTables(for: location) : SchemaScript.whole(for: location)
                let report = SchemaReport(script, executed: false)
                common.print(report)
                return .done
            }
        }
    }

    /// `pushsweep schema apply`: creates the missing tables.
    struct Apply: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "apply",
            abstract: "Add what is missing to the token database, and print the statements.",
            discussion: """
                Creates the tables that pushsweep keeps beside yours. Without the token table it \
                creates nothing and ends with 78, because the name in the settings may be mistyped; \
                --create-token-table creates that table too. Creates push_queue if it is missing and an app has a provider or the settings \
                name store.push-queue.table. Existing tables do not change without --upgrade. With it \
                the token table gains missing columns and the missing index, the queue the index that \
                finds open rows, and push_queue is created without a provider too. A second run does \
                nothing.

                \(HelpText.exitStatus)
                """)

        @OptionGroup var common: CommonOptions

        @Flag(
            name: .long,
            help: "Create the token table too, under the name in the settings, if it is missing.")
        var createTokenTable = false

        @Flag(
            name: .long,
            help: "Add missing columns and the token index to an existing token table too.")
        var upgrade = false

        @Flag(name: .long, help: "Print the statements and execute none.")
        var dryRun = false

        func run() throws {
            try common.finish { _ in
                let work = SchemaWork(
                    settings: try common.settings(), creatingTokens: createTokenTable,
                    upgrade: upgrade, dryRun: dryRun)
                let report = SchemaReport(try work.run(), executed: !dryRun)
                common.print(report)
                return .done
            }
        }
    }
}
