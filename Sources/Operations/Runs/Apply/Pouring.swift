// A gateway forgets its list once read, so its bytes are in the journal of this host first. From there they are
// poured into the database, where every host sees them:
//
//   feed in the journal, pending --its reports inserted--> batch, waiting
//                                --journal notes it------> feed "applied": the database has all of it
//
// A kill between the two leaves a feed whose batch is whole. It is poured again then, which inserts nothing. A
// feed that the journal holds, as one that reached feedback.max-bytes, becomes a held batch.

import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import SecureTransport
import TokenHygiene
import TokenTable

/// Pours feeds of one journal into the database.
struct Pouring {
    let journal: EvidenceJournal
    let evidence: EvidenceRun

    /// Stores a feed in the database and judges its batch. In a dry run it is judged as it is.
    func pour(_ feed: CapturedFeed) -> EvidenceRun.Result {
        var result = EvidenceRun.Result(
            entry: FeedReport(
                feed.partition, source: feed.source, end: feed.end == nil ? .truncated : .clean))
        (result.entry.feed, result.entry.state) = (feed.id, feed.state.rawValue)
        do {
            let read = try journal.evidence(of: feed)
            var heard = HeardBatch(batch(of: read), .sorted(read.tokens))
            result.entry = FeedReport(heard.batch)
            if !evidence.plan.dryRun { heard = try pour(read) }
            result = evidence.judge(heard)
            result.status = .worse(result.status, .following(read.captureEnd))
        } catch {
            evidence.fail(.wrapping(error, at: .apply), feed.id, &result)
        }
        return result
    }

    /// Inserts the reports of a feed, and returns its batch as the database has it then.
    ///
    /// - Throws: `stopped` where a stop signal came; failures of journal and database. What is inserted stays.
    func pour(_ read: FeedEvidence) throws -> HeardBatch {
        let (feed, context) = (read.feed, evidence.context)
        try pourQuarantine(of: feed)
        let known = try evidence.batches.batch(feed.id)
        // A part that another host has let be judged is stored once more, with the rest.
        let isCut = known.map { $0.state != .filling && $0.reports < read.counts.usable } ?? false
        let name = isCut ? try Self.name(after: feed.id) : nil
        var heard = HeardBatch(batch(of: read, named: name), .sorted(read.tokens))
        let isWhole = try evidence.store.fill(
            heard.batch, lease: evidence.lease, shouldStop: { context.interrupt.isTripped },
            report: {
                context.progress.show(
                    "storing \(feed.partition) (reports)", $0, of: read.counts.tuples)
            }
        ) { place in read.tokens.reports(after: place) }
        context.progress.clear()
        guard isWhole else { throw RunFailure.stopped }
        heard.batch = try evidence.batches.batch(heard.batch.id) ?? heard.batch
        guard
            ![.discarding, .discarded].contains(heard.batch.state) || heard.batch.reports > 0
                || read.counts.usable == 0
        else {
            throw RunFailure(
                .pending, .apply,
                "storing feed \(feed.id): a person gave it up meanwhile, so nothing of it is stored; run again, which "
                    + "stores it under another name")
        }
        guard heard.batch.reports == read.counts.usable else {
            throw RunFailure(
                .invariant, .apply,
                "storing feed \(feed.id): the database has \(heard.batch.reports) of \(read.counts.usable) reports; "
                    + "the feed stays in the journal, please report this")
        }
        try journal.noteApplied(feed.id, at: context.now())
        return heard
    }

    /// Tells all hosts, by the row of a batch that is being filled, that this one has bytes of a list. Reading goes on
    /// where the database does not answer; the bytes are in the journal.
    func announce(_ feed: String) throws {
        guard !evidence.plan.dryRun else { return }
        let batch = batch(of: try journal.feed(feed))
        if !evidence.store.announce(batch) {
            evidence.context.log.debug("the database did not take the name of feed \(feed)")
        }
    }

    private func batch(of feed: CapturedFeed, named name: String? = nil) -> ReportBatch {
        var batch = ReportBatch(
            id: name ?? feed.id, run: evidence.run, feed.partition, .feedback,
            feed.end == .file ? .file : .gateway, label: feed.source, host: evidence.context.host,
            opened: feed.opened)
        // A person who gives a list by hand asks for it.
        if feed.end == .file { batch.isAsked = true } else { batch.heard = batch.opened }
        return batch
    }

    private func batch(of read: FeedEvidence, named name: String? = nil) -> ReportBatch {
        let feed = read.feed
        var batch = batch(of: feed, named: name)
        (batch.ending, batch.detail) = (read.end, read.detail)
        batch.reports = read.counts.usable
        batch.quarantined = read.counts.quarantined
        batch.outOfBounds = read.outOfBounds
        batch.bytes = feed.bytes
        batch.quarantinedBytes = read.quarantinedBytes
        if feed.state == .held {
            batch.state = .held
            batch.hold = BatchHold(cause: feed.cause ?? "no cause was noted", gate: nil)
        }
        return batch
    }

    /// The name of a second batch of a feed or file. The same one has the same.
    static func name(after feed: String) throws -> String {
        let digest = try SHA256Digest()
        try digest.update(Array("pushsweep batch of \(feed)".utf8))
        return UUIDText.name(try digest.hex())
    }
}
