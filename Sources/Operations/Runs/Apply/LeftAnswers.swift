// A sender that was killed, or whose database went away, leaves answers in the log of its folder, and perhaps a batch
// that nobody fills any more. The next sender or sweep of the host writes their results into the queue, as far as the
// claims still have the rows, and their reports into batches, whoever has the rows.

import APNsProtocol
import EvidenceJournal
import PushQueue
import TokenHygiene
import TokenTable

/// The answers that a sender has left in one folder, now in the database.
struct LeftAnswers {
    /// The log, which is empty.
    let log: AnswerLog
    /// How many rows got their result.
    private(set) var written = 0
    /// The batches of what the answers say against tokens; nobody has judged them.
    private(set) var batches: [ReportBatch] = []

    /// Writes what a folder's log has of the queue, and empties the log. The process holds the folder's lock.
    ///
    /// - Throws: failures of the log and the database; then it can be tried again.
    init(settling folder: StateFolder, in queue: PushQueue, _ context: RunContext) throws {
        let (name, old) = try Self.open(folder, queue)
        var differing: [DeliveryState: Int] = [:]
        let left = try old.leftAnswers()
        for kept in left.answers {
            let settled = try queue.settle(
                kept.results, of: kept.claim, heard: kept.heard, from: kept.origin)
            written += settled.written
            differing.merge(settled.differing, uniquingKeysWith: +)
        }
        batches = try queue.closeBatches()
        if left.isDamaged {
            let kept = try old.setAside()
            context.log.warning("\(Self.damaged(folder.path, kept))")
            log = try AnswerLog(in: folder, queue: name)
        } else {
            log = old
            try log.empty()
        }
        if written > 0 { context.log.info("\(Self.settled(written))") }
        if !differing.isEmpty { context.log.warning("\(Self.late(differing))") }
    }

    /// Closes the batches that earlier senders of a folder have left open, and returns them. The process holds the
    /// folder's lock, so none of them lives.
    ///
    /// - Throws: failures of journal and database.
    static func closeTurns(
        in journal: EvidenceJournal, _ evidence: EvidenceRun
    ) throws -> [ReportBatch] {
        let runs = Set(try journal.runs(ofKind: "send", limit: runsLookedAt).map(\.id))
        return try evidence.batches.closeTurns(ofRuns: runs.subtracting([evidence.run]))
    }

    /// A batch of an older run has been judged after five minutes.
    private static let runsLookedAt = 100

    private static func settled(_ count: Int) -> String {
        "\(count.counting("notification")) of senders that are gone got the result of an answer that was "
            + "kept"
    }

    /// What it means that rows are not as the answers say: by their state.
    private static func late(_ differing: [DeliveryState: Int]) -> String {
        let states = differing.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { "\($0.value) \($0.key.rawValue)" }.joined(separator: ", ")
        return
            "answers of APNs to \(differing.values.reduce(0, +).counting("notification")) were kept and "
            + "came too late: the lease had ended, and another sender has the rows, which say \(states); "
            + "they were left as they are, so some may be delivered twice; raise send.lease, or start the "
            + "sender of this host again sooner"
    }

    private static func damaged(_ folder: String, _ file: String) -> String {
        "the answers kept in \(folder) are damaged in part, and the file was set aside as \(file): rows whose "
            + "answers cannot be read are of unknown outcome when their leases end, and a 410 among them does not "
            + "count; check the disk"
    }

    private static func open(
        _ folder: StateFolder, _ queue: PushQueue
    ) throws -> (name: UInt64, log: AnswerLog) {
        let name = try queue.identity()
        return (name, try AnswerLog(in: folder, queue: name))
    }
}
