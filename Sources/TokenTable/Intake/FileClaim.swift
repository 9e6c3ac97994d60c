// `pushsweep_intake` tells for ever which contents of files were taken: a row's name follows from the content. It is
// inserted in the transaction that lets the file's batches be judged, so a file counts as a whole or not at all, and
// of two imports of one content on two hosts one is taken.
//
// A log grows, and is imported again and again. So the row also has how long the content was, up to the end of its last
// whole record, and the digest of that. A later import looks for the longest such beginning of its file and reads what
// stands behind it. Of many contents those are asked that begin alike (`head`).

import Database
import Encodings
import Findings
import TokenHygiene

/// A content that was taken, up to the end of its last record with a line break.
package struct TakenContent: Hashable, Sendable {
    /// The digest of how it was read, for which app, and of its first bytes.
    package let head: String
    /// Bytes of the content, expanded where the file was gzip.
    package let length: Int
    /// The digest of how it was read, for which app, and of these bytes.
    package let digest: String
    /// The name under which it was taken; nil for one that is being taken.
    package let name: String?
    /// Whether a token was called dead or bad in what was read of it.
    package let isProven: Bool

    package init(
        head: String, length: Int, digest: String, name: String? = nil, isProven: Bool = false
    ) {
        (self.head, self.length, self.digest, self.name) = (head, length, digest, name)
        self.isProven = isProven
    }
}

extension EvidenceIntake {
    /// The most contents that begin alike and are compared.
    private static let mostAlike = 1_000

    /// Whether a content was taken.
    ///
    /// - Throws: any failure of a query.
    package func isTaken(_ name: String) throws(StoreFailure) -> Bool {
        try session.retries.retrying("looking for the import \(name)") { () throws(SQLFailure) in
            try owner(of: name) != nil
        }
    }

    /// The contents that begin so and were taken last, the youngest first.
    ///
    /// - Throws: any failure of a query.
    package func taken(beginning head: String) throws(StoreFailure) -> [TakenContent] {
        try session.retries.retrying("looking for imports that begin alike") {
            () throws(SQLFailure) in
            let rows = try connection.query(
                "SELECT length, digest, id, evidence + suspects FROM pushsweep_intake WHERE head = ? AND length IS NOT NULL "
                    + "AND digest IS NOT NULL ORDER BY taken_at DESC, id LIMIT \(Self.mostAlike)",
                [.text(head)])
            return (0..<rows.count).compactMap { row in
                guard let length = rows[row, 0].count, length > 0, let digest = rows[row, 1].text
                else {
                    return nil
                }
                return TakenContent(
                    head: head, length: length, digest: digest, name: rows[row, 2].text,
                    isProven: rows[row, 3].count ?? 0 > 0)
            }
        }
    }

    /// Enters the name of a content and lets its batches, which are in `filling`, be judged: both or none.
    ///
    /// - Returns: false where another run has taken the content. The batches stay as they are then.
    /// - Throws: `inconsistent` where the database has not all reports of the batches; any other failure. Then
    ///   the content is not taken, unless the database did not come back to tell.
    package func claim(
        _ name: String, run: String, _ counts: ReportCounts, content: TakenContent? = nil,
        letting batches: [ReportBatch], lease: Lease? = nil
    ) throws(StoreFailure) -> Bool {
        var isMissing = false
        let isTaken = try session.retries.retrying("entering the import \(name)") {
            () throws(SQLFailure) in
            try connection.begin()
            if let owner = try owner(of: name) {
                connection.rollBack()
                // The answer to an earlier try may have been lost.
                return owner.isExactly(run)
            }
            isMissing = try !areWhole(batches)
            guard !isMissing else {
                connection.rollBack()
                return false
            }
            try enter(name, run, counts, content)
            for batch in batches {
                try BatchRow(connection: connection).open(batch)
            }
            try lease?.renew(connection)
            try connection.commit()
            return true
        }
        guard !isMissing else {
            throw StoreFailure(
                .inconsistent,
                "entering the import \(name): the database has not all of its reports any more, as a server "
                    + "that took over without the last commits; nothing of the file was taken, import it again"
            )
        }
        return isTaken
    }

    /// Whether batches are in `filling` with all of their reports.
    private func areWhole(_ batches: [ReportBatch]) throws(SQLFailure) -> Bool {
        for batch in batches {
            let found = try BatchRow(connection: connection).read(batch.id, locking: true)
            guard let found, found.state == .filling, found.reports == batch.reports else {
                return false
            }
        }
        return true
    }

    /// The run that has taken a content; nil where none has.
    private func owner(of name: String) throws(SQLFailure) -> String? {
        let found = try connection.query(
            "SELECT run FROM pushsweep_intake WHERE id = ?", [.text(name)])
        return found.count > 0 ? found[0, 0].text ?? "" : nil
    }

    /// Writes the row of a name. Two runs that do so at once meet at its primary key.
    private func enter(
        _ name: String, _ run: String, _ counts: ReportCounts, _ content: TakenContent?
    ) throws(SQLFailure) {
        // What the table has no column for is passed over like what says nothing.
        let other = counts.other + counts.otherPlatform + counts.unknownReasons
        let numbers = [
            counts.reports, counts.evidence, counts.suspects, other, counts.quarantined,
        ].map { SQLValue.integer(Int64($0)) }
        _ = try connection.execute(
            "INSERT INTO pushsweep_intake (id, run, source, state, taken_at, reports, evidence, suspects, "
                + "other, quarantined, length, digest, head) "
                + "VALUES (?, ?, 'import', 'taken', \(connection.dialect.now), ?, ?, ?, ?, ?, ?, ?, ?)",
            [.text(name), .text(run)] + numbers + [
                content.map { .integer(Int64($0.length)) } ?? .null,
                content.map { .text($0.digest) } ?? .null, content.map { .text($0.head) } ?? .null,
            ])
    }
}

extension Batches {
    /// Empties what killed imports and searches for due rows have left in `filling`: the file was not taken, and the rows
    /// are found again. The rows of the batches stay,
    /// since an account that imports may not delete them; the same content fills them again, and a purge removes
    /// them. Only a run that has the lease imports, so none is at work where this run has it.
    ///
    /// - Throws: any failure of the database; what is removed stays removed.
    package func dropDrafts(lease: Lease?) throws(StoreFailure) {
        let drafts = try read(
            "state = 'filling' AND (inlet = 'file' AND source <> 'feedback' OR inlet = 'grace') AND origin IS NULL AND "
                + "reports + quarantined > 0", [])
        for batch in drafts {
            _ = try Quarantine(session).discard(batch.id, lease: lease)
            try empty(batch, lease)
        }
    }

    private func empty(_ batch: ReportBatch, _ lease: Lease?) throws(StoreFailure) {
        let doing = "removing what a killed import left of \(batch.id)"
        var loop = session.chunkLoop()
        _ = try loop.run(from: false, isDone: { $0 }, shouldStop: { false }) {
            (loop, isDone) throws(StoreFailure) in
            try loop.commit(after: isDone, doing: doing, checkpointOf: "batch \(batch.id)") {
                (size) throws(SQLFailure) in
                try connection.begin()
                let isLast = try StoredReports.removeFirst(
                    size, of: batch.number ?? 0, on: connection)
                if isLast {
                    _ = try connection.execute(
                        "UPDATE pushsweep_batch SET reports = 0, quarantined = 0, last_token = NULL "
                            + "WHERE name = ? AND state = 'filling'", [.text(batch.id)]
                    )
                }
                try lease?.renew(connection)
                try connection.commit()
                return .committed(isLast, entries: size, bytes: 0)
            } checkpoint: {
                isDone
            }
        }
    }
}
