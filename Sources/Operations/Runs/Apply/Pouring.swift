// A gateway forgets its list once read, so its bytes are in a file of this host first. From there they are
// poured into the database, where every host sees them:
//
//   list in its file, pending --what is quarantined, and its reports, inserted--> batch, waiting
//                             --its file gets another name---------------------> list "applied": the database has all
//
// A kill between the two leaves a list whose batch is whole. It is poured again then, which inserts nothing. A
// list whose file has a cause, as one that reached feedback.max-bytes, becomes a held batch.

import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import SecureTransport
import TokenHygiene
import TokenTable

/// Pours lists of one state folder into the database.
struct Pouring {
    let folder: StateFolder
    let evidence: EvidenceRun

    /// Stores a list in the database and judges its batch. In a dry run it is judged as it is.
    func pour(_ list: CapturedList) -> EvidenceRun.Result {
        var result = EvidenceRun.Result(
            entry: BatchReport(
                list.partition, source: list.source, end: list.end == nil ? .truncated : .clean))
        (result.entry.batch, result.entry.state) = (list.id, list.state.rawValue)
        do {
            let read = try folder.evidence(of: list)
            var heard = HeardBatch(batch(of: read), .sorted(read.tokens))
            result.entry = BatchReport(heard.batch)
            if !evidence.plan.dryRun { heard = try pour(read) }
            result = evidence.judge(heard)
            result.status = .worse(result.status, .following(read.captureEnd))
        } catch {
            evidence.fail(.wrapping(error, at: .apply), list.id, &result)
        }
        return result
    }

    /// Inserts the reports of a list, and returns its batch as the database has it then.
    ///
    /// - Throws: `stopped` where a stop signal came; failures of the state folder and the database. What is inserted stays.
    func pour(_ read: ListEvidence) throws -> HeardBatch {
        let (list, context) = (read.list, evidence.context)
        if try evidence.batches.batch(list.id) == nil {
            try evidence.store.begin(batch(of: list))
        }
        // Before the batch, so that a list which is applied has nothing left here. Keeping a part again changes nothing.
        try folder.quarantine(of: read) {
            try Quarantine(evidence.store).keep($0, of: list.id)
        }
        let known = try evidence.batches.batch(list.id)
        // A part that another host has let be judged is stored once more, with the rest.
        let isCut = known.map { $0.state != .filling && $0.reports < read.counts.usable } ?? false
        let name = isCut ? try Self.name(after: list.id) : nil
        var heard = HeardBatch(batch(of: read, named: name), .sorted(read.tokens))
        let isWhole = try evidence.store.fill(
            heard.batch, lease: evidence.lease, shouldStop: { context.interrupt.isTripped },
            report: {
                context.progress.show(
                    "storing \(list.partition) (reports)", $0, of: read.counts.tuples)
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
                "storing list \(list.id): a person gave it up meanwhile, so nothing of it is stored; run again, which "
                    + "stores it under another name")
        }
        guard heard.batch.reports == read.counts.usable else {
            throw RunFailure(
                .invariant, .apply,
                "storing list \(list.id): the database has \(heard.batch.reports) of \(read.counts.usable) reports; "
                    + "the list stays in the state folder, please report this")
        }
        try folder.noteApplied(list.id, at: context.now())
        return heard
    }

    /// Tells all hosts, by the row of a batch that is being filled, that this one has bytes of a list. Reading goes on
    /// where the database does not answer; the bytes are in their file.
    func announce(_ list: String) throws {
        guard !evidence.plan.dryRun else { return }
        let batch = batch(of: try folder.list(list))
        if !evidence.store.announce(batch) {
            evidence.context.log.debug("the database did not take the name of list \(list)")
        }
    }

    private func batch(of list: CapturedList, named name: String? = nil) -> ReportBatch {
        var batch = ReportBatch(
            id: name ?? list.id, run: evidence.run, list.partition, .feedback,
            list.end == .file ? .file : .gateway, label: list.source, host: evidence.context.host,
            opened: list.opened)
        // A person who gives a list by hand asks for it.
        if list.end == .file { batch.isAsked = true } else { batch.heard = batch.opened }
        return batch
    }

    private func batch(of read: ListEvidence, named name: String? = nil) -> ReportBatch {
        let list = read.list
        var batch = batch(of: list, named: name)
        (batch.ending, batch.detail) = (read.end, read.detail)
        batch.reports = read.counts.usable
        batch.quarantined = read.counts.quarantined
        batch.outOfBounds = read.outOfBounds
        batch.bytes = list.bytes
        batch.quarantinedBytes = read.quarantinedBytes
        if list.state == .held {
            batch.state = .held
            batch.hold = BatchHold(cause: list.cause ?? "no cause was noted", gate: nil)
        }
        return batch
    }

    /// The name of a second batch of a list. The same one has the same.
    static func name(after list: String) throws -> String {
        let digest = try SHA256Digest()
        try digest.update(Array("pushsweep batch of \(list)".utf8))
        return UUIDText.name(try digest.hex())
    }
}
