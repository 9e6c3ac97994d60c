import APNsConnection
import APNsProtocol
import EvidenceJournal
import SecureTransport
import TokenHygiene

/// Reads gateways into the journal. From its first byte on, a feed is in the journal, however this
/// run ends.
struct FeedCollector {
    let journal: EvidenceJournal
    let context: RunContext
    let run: String

    /// The result of reading one gateway.
    enum Outcome {
        /// The feed is in the journal under this name, pending or held.
        case captured(String)
        /// The bytes are in the journal and are no list: the settings name another kind of server.
        case misdirected(String, RunFailure)
        /// The list is empty, and the gateway ended it properly.
        case empty(CaptureEnd)
        /// Nothing was read, with the reason.
        case unreachable(RunFailure, FeedEnd)
        /// A stop signal came before anything was read.
        case stopped
    }

    /// Copies the raw bytes of a feedback list, as another program saved them, into the journal as a feed.
    /// Returns the feed's name.
    func copy(_ source: GivenSource, about partition: Partition) throws -> String {
        try journal.folder.ensureRoom()
        let capture = try journal.beginFeed(
            run: run, partition: partition, source: source.name, at: context.now())
        do {
            while try source.next({ bytes in
                try journal.folder.ensureRoom()
                try capture.append(bytes)
            }) {}
        } catch {
            try journal.discard(capture.id)
            throw error
        }
        try capture.close(.file, at: context.now())
        return capture.id
    }

    /// Reads one gateway to the end of its list.
    ///
    /// - Throws: only failures of the journal; then it is uncertain which bytes are durable.
    func collect(_ source: GatewayPlan) throws -> Outcome {
        let tls: TLSClientContext
        switch source.context {
        case .success(let made): tls = made
        case .failure(let refusal): return .unreachable(refusal, .refused)
        }
        try journal.folder.ensureRoom()
        let capture = try journal.beginFeed(
            run: run, partition: source.partition, source: source.name, at: context.now())
        let reader = FeedbackReader(
            host: source.host, port: source.port, hostName: source.hostName,
            context: tls, limits: source.limits, interrupt: context.interrupt)
        let reading = try reader.read { bytes in
            try capture.append(bytes)
            context.progress.show(
                "reading \(source.partition) (bytes)", capture.bytes, of: nil)
        }
        context.progress.clear()
        switch reading {
        case .stopped:
            try capture.abandon()
            return .stopped
        case .unreachable(let failure):
            try capture.abandon()
            return .unreachable(
                RunFailure(failure, of: source.partition, .feedback, at: .read),
                failure.code == .timedOut ? .timeout : .refused)
        case .misdirected(let failure, let end, _):
            try capture.close(end, at: context.now())
            return .misdirected(
                capture.id, RunFailure(failure, of: source.partition, .feedback, at: .read))
        case .captured(let end, let bytes):
            context.log.debug(
                "feed read",
                metadata: [
                    "partition": "\(source.partition)", "bytes": "\(bytes)",
                    "end": "\(end.rawValue)",
                ])
            if bytes == 0, end == .stopped {
                try capture.abandon()
                return .stopped
            }
            if bytes == 0, end == .closeNotify || end == .idle {
                try capture.abandon()
                return .empty(end)
            }
            try capture.close(
                end, at: context.now(),
                heldBecause: end == .full ? "the feed reached feedback.max-bytes" : nil)
            return .captured(capture.id)
        }
    }
}

extension SenderFolders {
    /// Opens the journals of senders that are gone, one after the other, and makes their interrupted
    /// feeds pending. `body` gets each journal under its lock, and returns whether to continue with
    /// the next.
    ///
    /// - Returns: the failures of journals; after a failure the next journal is opened.
    static func visitAbandoned(
        in state: String, at now: () -> EpochMilliseconds,
        _ body: (EvidenceJournal) throws(JournalFailure) -> Bool
    ) -> [JournalFailure] {
        var (folders, problems) = abandoned(in: state)
        for folder in folders {
            do throws(JournalFailure) {
                let journal = try EvidenceJournal(in: folder)
                try journal.recoverInterrupted(at: now())
                guard try body(journal) else { return problems }
            } catch {
                problems.append(error)
            }
        }
        // The locks are held until here, so that no other process takes a folder meanwhile.
        withExtendedLifetime(folders) {}
        return problems
    }
}
