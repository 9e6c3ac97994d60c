import ArgumentParser
import Operations

/// `pushsweep quarantine`: parts of batches that are no usable reports.
struct QuarantineCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine",
        abstract: "Show what is not usable as evidence, export or discard it.",
        subcommands: [List.self, Export.self, Discard.self])

    /// `pushsweep quarantine list`.
    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the batches with quarantined parts, and the reasons.",
            discussion: HelpText.whole(PackageResources.quarantine_list_txt))

        @OptionGroup var common: CommonOptions
        @Argument(help: "The beginning of a batch's name: list its parts too.") var batch: String?

        func run() throws {
            try common.finish(printing: { settings, _ in
                try QuarantineList(of: settings, batch: batch)
            })
        }
    }

    /// `pushsweep quarantine export`.
    struct Export: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "export",
            abstract: "Write the quarantined parts of a batch to a file, private to its owner.",
            discussion: HelpText.whole(PackageResources.quarantine_export_txt))

        @OptionGroup var common: CommonOptions
        @Argument(help: "The batch's name, from pushsweep quarantine list.") var batch: String
        @Argument(help: "The file to write; it must not exist.", completion: .file())
        var file: String

        func run() throws {
            try common.finish(printing: { settings, _ in
                try QuarantineExport(of: batch, to: file, settings)
            })
        }
    }

    /// `pushsweep quarantine discard`.
    struct Discard: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "discard",
            abstract: "Remove the quarantined parts of a batch that was examined.",
            discussion: HelpText.whole(PackageResources.quarantine_discard_txt))

        @OptionGroup var common: CommonOptions
        @Argument(help: "The batch's name, from pushsweep quarantine list.") var batch: String

        func run() throws {
            try common.finish(printing: { settings, context in
                try QuarantineDiscard(of: batch, settings, context)
            })
        }
    }
}
