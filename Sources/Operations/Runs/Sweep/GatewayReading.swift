import APNsConnection
import APNsProtocol
import Database
import EvidenceJournal
import Findings
import SecureTransport
import TokenHygiene

// The part of a sweep that reads gateways, and files with their bytes, into files of the state folder. From its first byte
// on, a list is there, however this run ends.

extension Sweep {
    /// Copies the raw bytes of a feedback list, as another program saved them, into a list of its own.
    /// Returns the list's name.
    func copy(
        _ source: GivenSource, about partition: Partition, _ pouring: Pouring
    ) throws -> String {
        let (folder, evidence) = (pouring.folder, pouring.evidence)
        try folder.ensureRoom()
        let capture = try folder.beginList(
            run: run, partition: partition, source: source.name, at: evidence.now)
        do {
            while try source.next({ bytes in
                try folder.ensureRoom()
                try capture.append(bytes)
            }) {}
        } catch {
            try capture.discard()
            throw error
        }
        try capture.close(.file, at: evidence.now)
        return capture.id
    }

    /// Reads one gateway, of `among` that are left, and judges its list.
    mutating func readGateway(
        _ source: GatewayPlan, among left: Int, _ pouring: Pouring
    ) throws {
        do {
            guard !context.interrupt.isTripped, try mayOpenList(pouring.evidence) else {
                throw RunFailure.stopped
            }
        } catch {
            outcome.fail(.wrapping(error, at: .store))
            throw CancellationError()
        }
        warnOfExpiry(source)
        var entry = BatchReport(source.partition, source: source.name, end: .clean)
        entry.certificateExpires = source.certificateEnds?.rfc3339
        let list: String?
        do {
            list = try read(source, limits(of: source, among: left, pouring), pouring, &entry)
        } catch {
            let failure = RunFailure.wrapping(error, at: .read)
            if failure != .stopped {
                // The bytes synced before are in its file, and the next run applies them.
                entry.end = ListEnd.truncated.rawValue
                entry.detail = failure.description
                entry.state = ListState.pending.rawValue
                outcome.report.apps.append(entry)
            }
            outcome.fail(failure)
            throw CancellationError()
        }
        guard let list else { return outcome.report.apps.append(entry) }
        try pour(
            pouring.folder.list(list), pouring, resumed: false,
            certificateEnds: source.certificateEnds)
    }

    /// Reads one gateway to the end of its list. Returns the list's name; nil where the list is empty or
    /// cannot be read, as the entry then says.
    ///
    /// - Throws: `stopped` where a stop signal came before anything was read; failures of the state folder, and
    ///   then it is uncertain which bytes are durable.
    private mutating func read(
        _ source: GatewayPlan, _ limits: FeedbackReader.Limits, _ pouring: Pouring,
        _ entry: inout BatchReport
    ) throws -> String? {
        let (folder, evidence) = (pouring.folder, pouring.evidence)
        let tls: TLSClientContext
        switch source.context {
        case .success(let made): tls = made
        case .failure(let refusal):
            entry.asked = refusal.stage != .identity
            note(refusal, .refused, &entry)
            return nil
        }
        try folder.ensureRoom()
        let capture = try folder.beginList(
            run: run, partition: source.partition, source: source.name, at: evidence.now)
        let feedback = source.feedback
        let reader = FeedbackReader(
            host: feedback.host, port: UInt16(feedback.port), hostName: feedback.hostName,
            context: tls, limits: limits, interrupt: context.interrupt)
        let reading = try reader.read(arriving: capture.arrive) { bytes in
            try capture.append(bytes)
            if capture.bytes == bytes.count { try pouring.announce(capture.id) }
            context.progress.show(
                "reading \(source.partition) (bytes)", capture.bytes, of: nil)
        }
        context.progress.clear()
        if case .captured(let end, let bytes) = reading {
            context.log.debug(
                "list read",
                metadata: [
                    "partition": "\(source.partition)", "bytes": "\(bytes)",
                    "end": "\(end.rawValue)",
                ])
        }
        switch reading {
        case .stopped, .captured(.stopped, bytes: 0):
            try capture.abandon()
            throw RunFailure.stopped
        case .unreachable(let failure):
            try capture.abandon()
            let end: ListEnd = if case .timedOut = failure.code { .timeout } else { .refused }
            note(RunFailure(failure, of: source.partition, .feedback, at: .read), end, &entry)
            return nil
        case .misdirected(let failure, let end, _):
            // The bytes are no list: the settings name another kind of server.
            try capture.close(end, at: evidence.now)
            outcome.fail(RunFailure(failure, of: source.partition, .feedback, at: .read))
        case .captured(let end, bytes: 0) where end == .closeNotify || end == .idle:
            try capture.abandon()
            entry.end = ListEnd(end, .clean).rawValue
            return nil
        case .captured(let end, _):
            try capture.close(
                end, at: evidence.now,
                heldBecause: end == .full ? "the list reached feedback.max-bytes" : nil)
        }
        return capture.id
    }

    /// The limits of a list. A slow one may use up no more than its share of the time budget, so that the gateways
    /// behind it are read, too; but a silence that `idle-timeout` allows ends no list, since the gateway forgets it.
    private func limits(
        of source: GatewayPlan, among left: Int, _ pouring: Pouring
    ) -> FeedbackReader.Limits {
        var limits = source.limits
        let pacing = pouring.evidence.store.session.pacing
        if let budget = pacing.throttle.budgetLeft(at: pacing.monotonic()) {
            let share = Duration.milliseconds(Int(budget) / (left + 1))
            limits.patience = min(limits.patience, max(limits.idle, share))
        }
        return limits
    }

    private mutating func note(
        _ failure: RunFailure, _ end: ListEnd, _ entry: inout BatchReport
    ) {
        (entry.end, entry.detail) = (end.rawValue, failure.description)
        outcome.fail(failure)
    }

    /// Whether the next gateway may be read: this run still has the lease, and the throttle permits
    /// it. False after a stop signal. A list once begun is read to its end, since the gateway forgets
    /// it.
    private func mayOpenList(_ evidence: EvidenceRun) throws(StoreFailure) -> Bool {
        let interrupt = context.interrupt
        guard try evidence.store.session.waitForThrottle(shouldStop: { interrupt.isTripped })
        else {
            return false
        }
        if let lease = evidence.lease { try evidence.store.session.renew(lease) }
        return true
    }

    private func warnOfExpiry(_ source: GatewayPlan) {
        guard let ends = source.certificateEnds,
            ends < context.now().advanced(by: GatewayPlan.expiryWarning),
            case .success = source.context
        else { return }
        context.log.warning(
            "the certificate for \(source.partition) ends at \(ends.rfc3339); renew it")
    }
}
