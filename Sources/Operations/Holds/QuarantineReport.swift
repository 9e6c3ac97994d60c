import EvidenceJournal

/// The feeds of which a part is no evidence: one JSON object for scripts. Fields may be added, never
/// renamed.
package struct QuarantineList: PrintedLines, Codable, Hashable, Sendable {
    /// Places listed of one feed; a feed of garbage has thousands.
    private static let mostPlaces = 20

    /// One feed.
    package struct Entry: Codable, Hashable, Sendable {
        /// Its name.
        package let feed: String
        /// The app's name in the settings.
        package let app: String
        /// `production` or `sandbox`.
        package let environment: String
        /// Where it came from.
        package let source: String
        /// When it was opened, RFC 3339.
        package let opened: String
        /// Bytes in all places.
        package let bytes: Int
        /// How many places there are.
        package let places: Int
        /// The first of them.
        package let first: [Place]
    }

    /// One place.
    package struct Place: Codable, Hashable, Sendable {
        /// Its first byte in the feed, from 0.
        package let offset: Int
        /// Its bytes.
        package let length: Int
        /// Why it is no evidence.
        package let reason: String
    }

    /// The oldest feed first.
    package let feeds: [Entry]
    /// The exit code.
    package var exit: Int32 = 0

    /// Reads what a journal has.
    ///
    /// - Throws: where the journal cannot be read.
    package init(_ journal: EvidenceJournal) throws(JournalFailure) {
        var feeds: [Entry] = []
        for found in try journal.quarantinedFeeds() {
            let first = try journal.quarantined(of: found.feed.id, limit: Self.mostPlaces)
            feeds.append(
                Entry(
                    feed: found.feed.id, app: found.feed.partition.app,
                    environment: found.feed.partition.environment, source: found.feed.source,
                    opened: found.feed.opened.rfc3339, bytes: found.bytes, places: found.places,
                    first: first.map {
                        Place(offset: $0.offset, length: $0.length, reason: $0.reason)
                    }))
        }
        self.feeds = feeds
    }

    /// For people.
    package var lines: [String] {
        feeds.isEmpty ? ["nothing is quarantined"] : feeds.flatMap(\.lines)
    }
}

extension QuarantineList.Entry {
    fileprivate var lines: [String] {
        let head =
            "\(feed) \(app)/\(environment) from \(source), opened \(opened): "
            + "\(bytes.counting("byte")) in \(places.counting("place"))"
        let lines = first.map {
            "  at byte \($0.offset), \($0.length.counting("byte")): \($0.reason)"
        }
        let more = places - first.count
        return [head] + lines + (more > 0 ? ["  and \(more.counting("place")) more"] : [])
    }
}

/// A feed written to a file.
package struct QuarantineExport: PrintedLines, Codable, Hashable, Sendable {
    /// The feed's name.
    package let feed: String
    /// The file.
    package let file: String
    /// Its bytes.
    package let bytes: Int
    /// The exit code.
    package var exit: Int32 = 0

    /// Writes a feed to a new file, private to its owner.
    ///
    /// - Throws: `JournalFailure` where the feed cannot be read, `RunFailure` where the file cannot be
    ///   written.
    package init(of feed: String, to file: String, from journal: EvidenceJournal) throws {
        bytes = try FeedExport(feed: feed, path: file).write(from: journal)
        (self.feed, self.file) = (feed, file)
    }

    /// For people.
    package var lines: [String] { ["\(file): \(bytes.counting("byte"))"] }
}

/// A feed whose quarantine was looked at.
package struct QuarantineDiscard: PrintedLines, Codable, Hashable, Sendable {
    /// The feed's name.
    package let feed: String
    /// How many places were quarantined.
    package let places: Int
    /// The exit code.
    package var exit: Int32 = 0

    /// Takes the quarantine of a feed back; its bytes go with a later purge.
    ///
    /// - Throws: `unknownFeed` where the journal has none of this name; else where it cannot be read or
    ///   written.
    package init(of feed: String, in journal: EvidenceJournal) throws(JournalFailure) {
        _ = try journal.feed(feed)
        places = try journal.releaseQuarantine(of: feed)
        self.feed = feed
    }

    /// For people.
    package var lines: [String] {
        ["\(feed): \(places.counting("place")) removed from the quarantine"]
    }
}
