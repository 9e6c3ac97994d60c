import APNsProtocol
import Database
import TokenHygiene

// The operations of a run on the token table: classify evidence, read the progress of a feed, and
// apply it.

extension TokenTable {
    /// Classifies evidence against the rows of a partition. Reads only and locks nothing.
    /// `shouldStop` is called between batches; `report` receives the counts so far.
    ///
    /// - Throws: any failure of reading.
    package func classify(
        _ evidence: inout some EvidenceStream, in partition: Partition, policy: RemovalPolicy,
        shouldStop: () -> Bool = { false }, report: (Classification) -> Void = { _ in }
    ) throws(StoreFailure) -> Classification {
        let layout = try layout()
        let lookup = try RowLookup(layout, connection.dialect, partition, wholeRows: false)
        let classifier = FeedClassifier(
            layout: layout, connection: connection, partition: partition, policy: policy,
            readsSideMarks: layout.mark == nil ? try hasSideMarks() : false)
        var result = Classification()
        while !shouldStop() {
            guard try session.gate.pass(shouldStop: shouldStop) else { break }
            let batch: [TokenEvidence]
            do {
                batch = try evidence.next(StatementShape.longest)
            } catch {
                throw StoreFailure(.evidence, "reading evidence: \(error); run again")
            }
            if batch.isEmpty {
                result.isComplete = true
                break
            }
            let before = result
            result = try retries.retrying("reading rows of \(layout.table)") {
                () throws(SQLFailure) in
                var next = before
                try classifier.classify(batch, into: &next, lookup)
                return next
            }
            report(result)
        }
        return result
    }

    /// The progress of a feed, all of its parts together; nil if no part was begun.
    package func progress(of feed: String) throws(StoreFailure) -> FeedProgress? {
        guard let count = try parts(of: feed) else { return nil }
        var parts: [FeedProgress?] = []
        for part in FeedPart.parts(count) { parts.append(try progress(of: feed, part: part)) }
        return FeedProgress(of: parts)
    }

    /// The same for dry runs, whose account may have access to the token table only: nil also where
    /// `pushsweep_feed` is missing or cannot be read.
    package func progressIfVisible(of feed: String) throws(StoreFailure) -> FeedProgress? {
        try session.canRead("pushsweep_feed", "parts") ? try progress(of: feed) : nil
    }

    /// The number of parts in which a feed was begun; nil if it was not begun.
    func parts(of feed: String) throws(StoreFailure) -> Int? {
        try retries.retrying("reading the marker of feed \(feed)") { () throws(SQLFailure) in
            try connection.query(
                "SELECT parts FROM pushsweep_feed WHERE feed = ? ORDER BY part", [.text(feed)]
            ).scalar?.count
        }
    }

    /// The progress of one part of a feed; nil if it was not begun.
    func progress(
        of feed: String, part: FeedPart
    ) throws(StoreFailure) -> FeedProgress? {
        let marker = FeedMarker(feed: feed, part: part, dialect: connection.dialect)
        return try retries.retrying("reading the marker of feed \(feed)") {
            () throws(SQLFailure) in
            try marker.read(connection, locking: false)
        }
    }

    /// Applies a feed chunk by chunk, each in a transaction that also moves the feed's marker.
    /// Evidence up to the marker is skipped, so the caller may pass a feed again from its start or
    /// from `progress(of:)`. `shouldStop` is called between chunks. After a stop the result is not
    /// `isApplied`, and the next call continues.
    ///
    /// - Throws: any failure; committed chunks stay applied, and the marker shows the progress.
    package func apply(
        _ evidence: inout some EvidenceStream, _ application: FeedApplication,
        shouldStop: () -> Bool = { false }, report: (FeedProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> FeedProgress {
        var applier = try FeedApplier(application, layout(), connection, pacing, session.gate)
        return try applier.run(&evidence, shouldStop: shouldStop, report: report)
    }
}
