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
            abstract: "Create what is missing in the token database, and say what was done.",
            discussion: """
                Creates the tables that pushsweep keeps beside yours; active_users where there is none; \
                and push_queue where there is none and an app has a provider, or the settings name \
                store.push-queue.table. Existing ones are left as they are unless --upgrade is given: then \
                the token table gains the columns and the index that it lacks, the queue the index \
                that finds open rows, and push_queue is created without a provider too. Running it again \
                does nothing.

                \(HelpText.exitStatus)
                """)

        @OptionGroup var common: CommonOptions

        @Flag(
            name: .long,
            help: "Add missing columns and the token index to an existing token table too.")
        var upgrade = false

        @Flag(name: .long, help: "Print what would be executed, execute nothing.")
        var dryRun = false

        func run() throws {
            try common.finish { _ in
                let work = SchemaWork(
                    settings: try common.settings(), upgrade: upgrade, dryRun: dryRun)
                let report = SchemaReport(try work.run(), executed: !dryRun)
                common.print(report)
                return .done
            }
        }
    }
}
