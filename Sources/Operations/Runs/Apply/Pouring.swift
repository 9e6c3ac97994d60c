// A gateway forgets its list once read, so its bytes are in a file of this host first. From there they go into the
// database, where every host sees them:
//
//   list in its file, pending --forecast, guard--> chunk by chunk: reports stored as they are decided --> applied
//                                      \ held --> reports stored, undecided --> held
//   the database has all of it --its file gets another name--> list "applied"
//
// What cannot be used goes into the quarantine before. A kill between the chunks leaves a batch in `filling`, whose row
// says how far it came. The next run of this host goes on behind its last token, or stores the rest where the first
// reports are undecided. A kill before the file gets its other name leaves a list whose batch is whole, and inserts
// nothing again. A list whose file has a cause, as one that reached feedback.max-bytes, is stored undecided, and so is one
// whose app the settings do not name any more, or that says the same of one token more often than a chunk may be large.

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

    /// Judges the batch of a list, and stores its reports. In a dry run it is judged as it is.
    func pour(_ list: CapturedList) -> EvidenceRun.Result {
        var result = EvidenceRun.Result(
            entry: BatchReport(
                list.partition, source: list.source, end: list.end == nil ? .truncated : .clean))
        (result.entry.batch, result.entry.state) = (list.id, list.state.rawValue)
        do {
            let read = try folder.evidence(of: list)
            var heard = HeardBatch(batch(of: read), .sorted(read.tokens))
            result.entry = BatchReport(heard.batch)
            if !evidence.plan.dryRun { heard = try open(read) }
            result = evidence.judge(heard)
            if !evidence.plan.dryRun { try close(heard, of: read) }
            result.status = .worse(result.status, .following(read.captureEnd))
        } catch {
            evidence.fail(.wrapping(error, at: .apply), list.id, &result)
        }
        return result
    }

    /// Makes the batch of a list, and stores its reports unless they are stored as they are decided.
    ///
    /// - Throws: `stopped` where a stop signal came; failures of the state folder and the database. What is inserted stays.
    func open(_ read: ListEvidence) throws -> HeardBatch {
        let list = read.list
        try evidence.store.begin(batch(of: read))
        // Before the batch, so that a list which is applied has nothing left here. Keeping a part again changes nothing.
        try folder.quarantine(of: read) {
            try Quarantine(evidence.store).keep($0, of: list.id)
        }
        var known = try evidence.batches.batch(list.id)
        // A part that another host has let be judged is stored once more, with the rest.
        let isCut = known.map { $0.state != .filling && $0.reports < read.counts.usable } ?? false
        let made = batch(of: read, named: isCut ? try Self.name(after: list.id) : nil)
        if isCut {
            try evidence.store.begin(made)
            known = try evidence.batches.batch(made.id)
        }
        var heard = HeardBatch(known ?? made, .sorted(read.tokens))
        let isDecided = heard.batch.reports == heard.batch.progress.counts.total
        if heard.batch.state == .filling, heard.batch.hold == nil, isDecided,
            evidence.isNamed(heard.batch), read.tokens.most <= TokenEvidence.mostTimes
        {
            (heard.batch.reports, heard.isStored) = (read.counts.usable, false)
        } else {
            heard.batch = made
            try evidence.store(&heard)
        }
        return heard
    }

    /// Notes that the database has all of a list.
    ///
    /// - Throws: failures of the state folder and the database.
    private func close(_ heard: HeardBatch, of read: ListEvidence) throws {
        guard let known = try evidence.batches.batch(heard.batch.id), known.state != .filling
        else { return }
        // What a person gave up meanwhile is stored by the next run under another name.
        if [.discarding, .discarded].contains(known.state), known.reports == 0 { return }
        guard known.reports == read.counts.usable else {
            throw RunFailure(
                .invariant, .apply,
                "storing list \(read.list.id): the database has \(known.reports) of \(read.counts.usable) reports; "
                    + "the list stays in the state folder, please report this")
        }
        try folder.noteApplied(read.list.id, at: evidence.context.now())
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
