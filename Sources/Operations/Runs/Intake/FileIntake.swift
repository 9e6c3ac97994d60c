// Takes the log or export of another sender into the database:
//
//   1. read the file from where it grew (see `ContentDigest`), and sort it on this host; what it is called follows from
//      its content
//   2. ask whether that content was taken before, and stop there if it was
//   3. insert its reports as batches in `filling`, which nobody judges
//   4. enter its name into `pushsweep_intake` and let the batches be judged, in one transaction
//
// Before the fourth step nothing of the file counts. What a killed import leaves, the next run that has the lease
// removes, and the file is imported again.

import APNsProtocol
import Database
import Encodings
import EvidenceFiles
import EvidenceJournal
import Findings
import Glibc
import SecureTransport
import TokenHygiene
import TokenTable

extension ReportIntake {
    /// Takes the reports of a file. Returns their batches, and the counts. The same
    /// content, read in the same way for the same app, is taken once.
    ///
    /// - Throws: usage for a file that cannot be read; `RefusedFile` for one that does not fit the options
    ///   (usage) or has a fault of its structure (exit 65); failures of the database, and `pending` for a stop.
    ///   Then nothing of it is taken.
    func take(
        _ file: SweepPlan.GivenFile, _ layout: ReportLayout, _ source: GivenSource
    ) throws -> (batches: [HeardBatch], report: IntakeReport) {
        defer { context.progress.clear() }
        let terms = Self.terms(of: file, layout)
        let before = file.again ? nil : try readBefore(of: source, terms)
        var reports = newReports()
        let content = try read(
            file.partition, layout, source, terms, behind: before, into: &reports)
        let isKnown = try isTaken(content.name)
        // Where nothing stands behind what was taken, the last import of that says what became of it.
        let isWholeKnown = before != nil && reports.counts.reports == 0
        if !file.again, isKnown || isWholeKnown {
            let name = isWholeKnown ? before?.name : content.name
            return ([], try known(name, source))
        }
        let accepting = reports.accepting
        let read = try reports.sorted { try eachSuspected(of: accepting, $0) }
        // Taken once more it needs a name of its own.
        let name = isKnown ? UUIDText.random() : content.name
        let batches = try read.batches.map { read in
            var heard = try heard(
                read, .file, named: self.name(of: read, in: name), from: source.name)
            heard.batch.isAsked = file.again
            heard.batch.intake = name
            return heard
        }
        let report = try report(of: read, behind: before, source)
        guard !plan.dryRun,
            content.taken != nil || !batches.isEmpty || read.counts.quarantined > 0
        else { return (batches, report) }
        let unusable = try keepUnusable(of: read, named: name, source)
        for batch in batches { try insert(batch, source) }
        guard
            try intake.claim(
                name, run: run, read.counts, content: content.taken,
                letting: batches.map(\.batch) + unusable, lease: evidence.lease)
        else {
            throw RunFailure(
                .pending, .store,
                "importing \(source.name): another run has imported the same content meanwhile; run again"
            )
        }
        return (try batches.map(whole), report)
    }

    /// How a file is read and for which app: the beginning of each of its digests.
    private static func terms(of file: SweepPlan.GivenFile, _ layout: ReportLayout) -> [UInt8] {
        let whose = file.partition.map { "\($0)" } ?? "the app of each line"
        return Array("\(whose) \(layout.canonical)\n".utf8)
    }

    /// The counts of what was read, behind what was imported before.
    private func report(
        of read: ReadReports.Sorted, behind before: ReadBefore?, _ source: GivenSource
    ) throws -> IntakeReport {
        var report = IntakeReport(read.counts)
        guard let before else { return report }
        report.knownBytes = before.beginning.length
        report.holds = try states(ofBatchesIn: before.name).contains(.held)
        return report
    }

    /// Passes on the tokens of some apps that APNs called bad, in either environment: an answer of one says something of the
    /// other. A dry run tells nothing of what they come to.
    private func eachSuspected(
        of partitions: Set<Partition>, _ body: ([DeviceToken]) throws -> Void
    ) throws {
        guard !plan.dryRun else { return }
        let named = partitions.map { plan.partitions[$0] ?? $0 }
        for stored in Set(named + named.compactMap(\.elsewhere)) {
            var last: DeviceToken?
            while case let page = try Suspects(store).page(of: stored, after: last), !page.isEmpty {
                try body(page.map(\.token))
                last = page.last?.token
            }
        }
    }

    /// Whether a content was taken. A dry run needs neither the table nor a right to it.
    private func isTaken(_ name: String) throws -> Bool {
        do throws(StoreFailure) {
            return try intake.isTaken(name)
        } catch {
            guard plan.dryRun, ![.unreachable, .busy].contains(error.code) else { throw error }
            return false
        }
    }

    /// The name of a batch of a file: the same for the same content.
    private func name(of batch: ReadReports.Sorted.Batch, in file: String) throws -> String {
        let digest = try SHA256Digest()
        let (partition, source) = (batch.partition, batch.source)
        var texts = [file, partition.app, partition.environment, source.rawValue]
        if batch.heard != nil {
            texts.append("heard \(batch.refusal.map { "\($0.rawValue)" } ?? "")")
        }
        try digest.update(Array(texts.joined(separator: "\0").utf8))
        return UUIDText.name(try digest.hex())
    }

    /// Keeps what cannot be used as a batch in `filling`, and returns it; none where there is nothing.
    private func keepUnusable(
        of read: ReadReports.Sorted, named file: String, _ source: GivenSource
    ) throws -> [ReportBatch] {
        guard read.counts.quarantined > 0 else { return [] }
        let name = try Pouring.name(after: file)
        var batch = ReportBatch(
            id: name, run: run, .noApp, .unusable, .file, label: source.name, host: context.host,
            opened: evidence.now)
        batch.quarantined = read.counts.quarantined
        guard
            try store.fill(
                batch, lease: evidence.lease, staysOpen: true, from: { _ in NoReports() })
        else { throw RunFailure.stopped }
        let quarantine = Quarantine(store)
        try read.eachParts {
            guard !context.interrupt.isTripped else { throw stopped(source) }
            try quarantine.keep($0, of: name, lease: evidence.lease)
        }
        return [batch]
    }

    /// Inserts the reports of a batch.
    private func insert(_ heard: HeardBatch, _ source: GivenSource) throws {
        guard case .sorted(let evidence) = heard.home else { return }
        do throws(StoreFailure) {
            let isWhole = try store.fill(
                heard.batch, lease: self.evidence.lease, staysOpen: true,
                shouldStop: { context.interrupt.isTripped },
                report: {
                    context.progress.show(
                        "storing \(heard.batch.partition) (reports)", $0, of: heard.batch.reports)
                },
                from: { evidence.reports(after: $0) })
            guard !isWhole else { return }
        } catch {
            guard error.code == .stopped else { throw error }
            throw stopped(source, error)
        }
        throw stopped(source)
    }

    /// The failure of an import that ends before the database has all of the file.
    private func stopped(_ source: GivenSource, _ cause: StoreFailure? = nil) -> RunFailure {
        RunFailure(
            .pending, .store,
            sentences: [
                "importing \(source.name): told to stop before the database had all of it, so nothing of it "
                    + "was taken and the next run removes what is stored; import it again"
                    + (cause.map { " with more time, or once nothing stops it (\($0))" } ?? "")
            ], reason: cause?.reason)
    }

    /// A batch as the database has it now.
    private func whole(_ heard: HeardBatch) throws -> HeardBatch {
        var heard = heard
        heard.batch = try evidence.batches.batch(heard.batch.id) ?? heard.batch
        return heard
    }

    /// Says what became of a content that was imported before under some name.
    private func known(_ name: String?, _ source: GivenSource) throws -> IntakeReport {
        var report = IntakeReport()
        report.known = true
        let states = try states(ofBatchesIn: name)
        report.holds = states.contains(.held)
        let discarded = states.count { [.discarding, .discarded].contains($0) }
        if discarded > 0 {
            report.discarded = true
            report.discardedInPart = discarded < states.count ? true : nil
        }
        context.log.notice(
            """
            \(source.name): nothing of it is taken, because \(report.knownWords)
            """)
        return report
    }

    /// The states of what a content brought that could be used. A dry run needs no right to look.
    private func states(ofBatchesIn content: String?) throws -> [BatchState] {
        guard let content else { return [] }
        if plan.dryRun, try evidence.batches.visibility() != .readable { return [] }
        return try evidence.batches.all(of: content).map(\.state)
    }
}

/// The reports of a batch that has none.
private struct NoReports: ReportSource {
    mutating func next(_ limit: Int) -> [NumberedReport] { [] }
}
