import APNsProtocol
import Database
import TokenHygiene

// What a run asks of the table: what evidence would do, how far a feed is applied, and to apply it.

extension TokenTable {
    /// Finds out what evidence would do to the rows of a partition. Reads only and locks nothing.
    /// `shouldStop` is asked between batches; `report` hears the numbers so far.
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

    /// How far a feed is applied, all of its parts together; nil if nothing of it was ever begun.
    package func progress(of feed: String) throws(StoreFailure) -> FeedProgress? {
        guard let count = try parts(of: feed) else { return nil }
        var parts: [FeedProgress?] = []
        for part in FeedPart.parts(count) { parts.append(try progress(of: feed, part: part)) }
        return FeedProgress(of: parts)
    }

    /// The same for dry runs, whose account may see nothing but the token table: nil also where
    /// `pushsweep_feed` is missing or may not be read.
    package func progressIfVisible(of feed: String) throws(StoreFailure) -> FeedProgress? {
        try session.canRead("pushsweep_feed", "parts") ? try progress(of: feed) : nil
    }

    /// In how many parts a feed was begun; nil if it was not.
    func parts(of feed: String) throws(StoreFailure) -> Int? {
        try retries.retrying("reading the marker of feed \(feed)") { () throws(SQLFailure) in
            try connection.query(
                "SELECT parts FROM pushsweep_feed WHERE feed = ? ORDER BY part", [.text(feed)]
            ).scalar?.count
        }
    }

    /// How far one part of a feed is applied; nil if nothing of it was ever begun.
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
    /// Evidence up to the marker is passed over, so a feed may be handed in again from its start or
    /// from `progress(of:)`. `shouldStop` is asked between chunks; then the result is not `isApplied`
    /// and the next call goes on.
    ///
    /// - Throws: any failure; what is committed stands, and the marker tells how far that is.
    package func apply(
        _ evidence: inout some EvidenceStream, _ application: FeedApplication,
        shouldStop: () -> Bool = { false }, report: (FeedProgress) -> Void = { _ in }
    ) throws(StoreFailure) -> FeedProgress {
        var applier = try FeedApplier(application, layout(), connection, pacing, session.gate)
        return try applier.run(&evidence, shouldStop: shouldStop, report: report)
    }
}
