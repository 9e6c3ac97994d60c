import ArgumentParser
import EvidenceJournal
import Foundation
import Operations

/// `pushsweep quarantine`: parts of feeds that are not evidence.
struct QuarantineCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine",
        abstract: "Show the parts of feeds that are not usable as evidence.",
        subcommands: [List.self, Export.self, Discard.self])

    /// `pushsweep quarantine list`.
    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the feeds with quarantined bytes, and the places.",
            discussion: HelpText.whole(PackageResources.quarantine_list_txt))

        @OptionGroup var common: CommonOptions

        func run() throws {
            try common.finish(printing: { settings, _ in
                try QuarantineList(HostJournals(state: settings.state).all)
            })
        }
    }

    /// `pushsweep quarantine export`.
    struct Export: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "export",
            abstract: "Write the raw bytes of a whole feed to a file, private to its owner.",
            discussion: HelpText.whole(PackageResources.quarantine_export_txt))

        @OptionGroup var common: CommonOptions
        @Argument(help: "The feed's name, from pushsweep quarantine list.") var feed: String
        @Argument(help: "The file to write; it must not exist.") var file: String

        func run() throws {
            try common.finish(printing: { settings, _ in
                try QuarantineExport(
                    of: feed, to: file, from: HostJournals(state: settings.state).journal(of: feed))
            })
        }
    }

    /// `pushsweep quarantine discard`.
    struct Discard: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "discard",
            abstract: "Record that the quarantine of a feed was examined.",
            discussion: HelpText.whole(PackageResources.quarantine_discard_txt))

        @OptionGroup var common: CommonOptions
        @Argument(help: "The feed's name, from pushsweep quarantine list.") var feed: String

        func run() throws {
            try common.finish(printing: { settings, _ in
                try QuarantineDiscard(
                    of: feed, in: HostJournals(state: settings.state).journal(of: feed))
            })
        }
    }
}
