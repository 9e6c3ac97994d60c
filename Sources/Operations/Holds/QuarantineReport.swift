import EvidenceJournal
import Foundation
import TokenHygiene

/// The feeds with quarantined bytes: one JSON object for scripts. Fields may be added, never renamed.
package struct QuarantineList: PrintedLines, Codable, Hashable, Sendable {
    /// The most places listed for one feed; a feed of garbage has thousands.
    private static let mostPlaces = 20

    /// One feed with quarantined bytes.
    package struct Entry: Codable, Hashable, Sendable {
        /// The feed's name.
        package let feed: String
        /// The app's name in the settings.
        package let app: String
        /// `production` or `sandbox`.
        package let environment: String
        /// `host:port` of the gateway, or the path of the file.
        package let source: String
        /// The time at which it was opened, RFC 3339.
        package let opened: String
        /// Number of bytes in all places.
        package let bytes: Int
        /// Number of quarantined places.
        package let places: Int
        /// The first places.
        package let first: [Quarantined]
    }

    /// The feeds, oldest first.
    package let feeds: [Entry]
    package var exit: Int32 = 0

    /// Reads the quarantine of the journals of a host.
    ///
    /// - Throws: failures to read one.
    package init(_ journals: [EvidenceJournal]) throws(JournalFailure) {
        var feeds: [Entry] = []
        for journal in journals {
            for found in try journal.quarantinedFeeds() {
                feeds.append(
                    Entry(
                        feed: found.feed.id, app: found.feed.partition.app,
                        environment: found.feed.partition.environment, source: found.feed.source,
                        opened: found.feed.opened.rfc3339, bytes: found.bytes,
                        places: found.places,
                        first: try journal.quarantined(of: found.feed.id, limit: Self.mostPlaces)))
            }
        }
        self.feeds = feeds.sorted { ($0.opened, $0.feed) < ($1.opened, $1.feed) }
    }

    package var lines: [String] {
        feeds.isEmpty ? ["nothing is quarantined"] : feeds.flatMap(\.lines)
    }
}

extension QuarantineList.Entry {
    fileprivate var lines: [String] {
        let head =
            "\(feed) \(Partition(app: app, environment: environment)) from \(source), opened \(opened): "
            + "\(bytes.counting("byte")) in \(places.counting("place"))"
        let lines = first.map {
            "  at byte \($0.offset), \($0.length.counting("byte")): \($0.reason)"
        }
        let more = places - first.count
        return [head] + lines + (more > 0 ? ["  and \(more.counting("place")) more"] : [])
    }
}

/// The result of writing a feed to a file.
package struct QuarantineExport: PrintedLines, Codable, Hashable, Sendable {
    /// The feed's name.
    package let feed: String
    package let file: String
    /// Number of bytes written.
    package let bytes: Int
    package var exit: Int32 = 0

    /// Writes the raw bytes of a feed to a new file that only its owner may read, never over an existing
    /// one.
    ///
    /// - Throws: `JournalFailure` when the feed cannot be read, `RunFailure` when the file cannot be
    ///   written.
    package init(of feed: String, to file: String, from journal: EvidenceJournal) throws {
        (self.feed, self.file) = (feed, file)
        try journal.ensureBytes(of: feed)
        // O_EXCL follows no link and overwrites nothing (open(2)), also in another user's folder.
        let descriptor = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw RunFailure(
                .cannotCreate, .report,
                "creating \(file) for feed \(feed): \(String(cString: strerror(errno))); name a "
                    + "file that does not exist in a folder that can be written")
        }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var bytes = 0
        do {
            try journal.forEachChunk(of: feed) { chunk in
                do {
                    try handle.write(contentsOf: Data(chunk))
                } catch {
                    throw RunFailure(
                        .cannotCreate, .report,
                        "writing feed \(feed) to \(file): \(error.localizedDescription); free disk "
                            + "space or name a file elsewhere")
                }
                bytes += chunk.count
            }
        } catch {
            unlink(file)
            throw error
        }
        self.bytes = bytes
    }

    package var lines: [String] { ["\(file): \(bytes.counting("byte"))"] }
}

/// The result of discarding the quarantine of a feed.
package struct QuarantineDiscard: PrintedLines, Codable, Hashable, Sendable {
    /// The feed's name.
    package let feed: String
    /// Number of places that were quarantined.
    package let places: Int
    package var exit: Int32 = 0

    /// Discards the quarantine of a feed.
    ///
    /// - Throws: `unknownFeed` when the journal has no feed of this name; failures to read or write
    ///   the journal.
    package init(of feed: String, in journal: EvidenceJournal) throws(JournalFailure) {
        _ = try journal.feed(feed)
        places = try journal.releaseQuarantine(of: feed)
        self.feed = feed
    }

    package var lines: [String] {
        ["\(feed): \(places.counting("place")) removed from the quarantine"]
    }
}
