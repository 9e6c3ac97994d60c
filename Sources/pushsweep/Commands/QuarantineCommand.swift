import ArgumentParser
import EvidenceJournal
import Foundation
import Operations

/// `pushsweep quarantine`: parts of feeds that are not evidence.
struct QuarantineCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine",
        abstract: "Show the parts of feeds that are not usable as evidence.",
        discussion: HelpText.exitStatus,
        subcommands: [List.self, Export.self, Discard.self])

    /// `pushsweep quarantine list`.
    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the feeds with quarantined bytes, and the places.",
            discussion: HelpText.exitStatus)

        @OptionGroup var common: CommonOptions

        func run() throws {
            try common.finish { context in
                let list = try QuarantineList(try common.journals().journals)
                common.print(list)
                return .done
            }
        }
    }

    /// `pushsweep quarantine export`.
    struct Export: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "export",
            abstract: "Write the raw bytes of a whole feed to a file, private to its owner.",
            discussion: """
                The file holds whole device tokens. After a correction the file can be replayed: \
                see pushsweep help replay.

                \(HelpText.exitStatus)
                """)

        @OptionGroup var common: CommonOptions
        @Argument(help: "The feed's name, from pushsweep quarantine list.") var feed: String
        @Argument(help: "The file to write; it must not exist.") var file: String

        func run() throws {
            try common.finish { context in
                let export = try QuarantineExport(
                    of: feed, to: file, from: try common.journals().journal(of: feed))
                common.print(export)
                return .done
            }
        }
    }

    /// `pushsweep quarantine discard`.
    struct Discard: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "discard",
            abstract: "Record that the quarantine of a feed was examined.",
            discussion: """
                Lines of other senders that could not be used are deleted at once. The bytes of a \
                gateway's feed are kept for the usual 30 days after it was applied.

                \(HelpText.exitStatus)
                """)

        @OptionGroup var common: CommonOptions
        @Argument(help: "The feed's name, from pushsweep quarantine list.") var feed: String

        func run() throws {
            try common.finish { context in
                let discard = try QuarantineDiscard(
                    of: feed, in: try common.journals().journal(of: feed))
                common.print(discard)
                return .done
            }
        }
    }
}

extension CommonOptions {
    /// The journals of this host: that of the state folder, opened under its lock, and those of senders.
    fileprivate func journals() throws -> Holds {
        try Holds(state: try settings().state)
    }
}
