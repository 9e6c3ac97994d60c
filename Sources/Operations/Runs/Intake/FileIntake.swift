// Takes the log or export of another sender into the database:
//
//   1. read the file once, into a scratch table of this host; what it is called follows from its content
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
    private static let linesPerSign = 10_000

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
        var reports = try newReports()
        let digest = try read(file.partition, layout, source, into: &reports)
        let accepting = reports.accepting
        let read = try reports.sorted { try eachSuspected(of: accepting, $0) }
        let content = UUIDText.name(digest)
        let isKnown = try isTaken(content)
        // Taken once more it needs a name of its own.
        let name = isKnown && file.again ? UUIDText.random() : content
        let batches = try read.batches.map { read in
            var heard = try heard(
                read, .file, named: self.name(of: read, in: name), from: source.name)
            heard.batch.isAsked = file.again
            return heard
        }
        let report = IntakeReport(read.counts)
        guard !batches.isEmpty || read.counts.quarantined > 0 else { return ([], report) }
        if isKnown, !file.again { return ([], try known(batches, source)) }
        guard !plan.dryRun else { return (batches, report) }
        let unusable = try keepUnusable(of: read, named: name, source)
        for batch in batches { try insert(batch, source) }
        guard
            try intake.claim(
                name, run: run, read.counts, letting: batches.map(\.batch) + unusable,
                lease: evidence.lease)
        else {
            throw RunFailure(
                .pending, .store,
                "importing \(source.name): another run has imported the same content meanwhile; run again"
            )
        }
        return (try batches.map(whole), report)
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

    /// Says what became of a content that was imported before.
    private func known(_ batches: [HeardBatch], _ source: GivenSource) throws -> IntakeReport {
        var report = IntakeReport()
        report.known = true
        let states = try batches.compactMap { try evidence.batches.batch($0.batch.id)?.state }
        report.holds = states.contains(.held)
        let discarded = states.count { [.discarding, .discarded].contains($0) }
        if discarded > 0 {
            report.discarded = true
            report.discardedInPart = discarded < states.count ? true : nil
        }
        context.log.notice(
            """
            \(source.name): \(report.knownWords), so nothing of it is taken; --again takes it once more
            """)
        return report
    }

    /// Reads a file to its end and returns the digest of its content and of how it is read.
    ///
    /// - Throws: as `take`.
    private func read(
        _ partition: Partition?, _ layout: ReportLayout, _ source: GivenSource,
        into reports: inout ReadReports
    ) throws -> String {
        let (now, refused) = (evidence.now, try store.refusalTimes(mustSee: !plan.dryRun))
        let digest = try SHA256Digest()
        let whose = partition.map { "\($0)" } ?? "the app of each line"
        try digest.update(Array("\(whose) \(layout.canonical)\n".utf8))
        var reader = ReportLines(layout, reports.reader)
        var first = FirstLines(of: source, layout, reports.reader)
        var (shown, consumed, unread, ahead, isBlank) = (0, 0, 0, 0, true)
        var unknown = UnknownReasons()
        let content = { (bytes: UnsafeRawBufferPointer) in
            // A small file may expand to a large one, of few lines or none.
            if context.interrupt.isTripped { throw source.stopped }
            try digest.update(bytes)
            first.beginning.take(bytes)
            if isBlank { isBlank = bytes.allSatisfy(Self.isBlank) }
        }
        let add = { (line: ReportLine, reports: inout ReadReports) throws in
            let evidence = reports.counts.evidence
            let (named, reading) = about(line, partition)
            let sent = line.sent(before: now)
            if line.isSent(after: now) { ahead += 1 }
            let refusal = try reports.add(
                reading, about: named, text: Array(line.bytes), place: line.line,
                refusal: sent.flatMap(refused.first(notBefore:)), heard: sent)
            // What is passed over says nothing about the options.
            if refusal != nil || reports.counts.evidence > evidence {
                try first.note(refusal, line)
            }
            unread += line.unread
            if case .success(.unknownReason(let reason)) = line.reading {
                unknown.add(reason, line.line)
            }
            if source.length == nil, reports.counts.reports - shown >= Self.linesPerSign {
                shown = reports.counts.reports
                context.progress.show("importing (lines)", shown, of: nil)
            }
        }
        beginProgress(of: source)
        do {
            while try source.next({ piece in
                try reader.take(piece, content: content, { try add($0, &reports) })
                consumed += piece.count
                if let size = source.length {
                    context.progress.show("importing (bytes)", consumed, of: size)
                }
            }) {}
            try reader.finish(content: content, { try add($0, &reports) })
        } catch let text as Refusal {
            throw RefusedFile(failure: source.failure("\(text)", .quarantined), layout: nil)
        } catch let file as UnreadableFile {
            throw first.failure(file)
        }
        guard !isBlank else { throw RefusedFile(failure: source.empty, layout: nil) }
        for warning in try first.end(reports.counts) { context.log.warning("\(warning)") }
        tell(of: source, hasTabs: reader.hasTabs, unread: unread, ahead: ahead, unknown.words)
        return try digest.hex()
    }

    /// Shows reading, storing, comparing and changing as one, where the size is known.
    private func beginProgress(of source: GivenSource) {
        guard let size = source.length, size > 0 else { return }
        context.progress.begin(WholeProgress("importing \(source.name) (bytes)", size: size))
    }

    /// The app and environment of a line, and what it says; that it cannot be used where it names none of the
    /// settings.
    private func about(
        _ line: ReportLine, _ given: Partition?
    ) -> (Partition, Result<ReportReading, UnusableReport>) {
        if let given { return (given, line.reading) }
        switch line.reading {
        case .success(.evidence), .success(.suspect), .success(.accepted): break
        case .success, .failure: return (.noApp, line.reading)
        }
        let (named, reading) = namedIn(line)
        guard case .success(.accepted) = line.reading, case .failure = reading else {
            return (named, reading)
        }
        // It says nothing against anybody.
        return (.noApp, .success(.nothing))
    }

    /// The app and environment that a line names, and what it says of its token.
    private func namedIn(
        _ line: ReportLine
    ) -> (Partition, Result<ReportReading, UnusableReport>) {
        let object = Array(line.bytes).withUnsafeBytes { JSONObject($0) }
        guard case .text(let app) = object?["app"],
            case .text(let environment) = object?["environment"]
        else { return (.noApp, .failure(.line("it names no app and environment"))) }
        do {
            let named = try apps.app(Partition(app: app, environment: environment)).get()
            return (named, line.reading)
        } catch {
            return (
                .noApp,
                .failure(.line("the settings name no \(error); correct it, or name --app"))
            )
        }
    }

    /// Says what was read in another way than the options say, and what was not read.
    private func tell(
        of source: GivenSource, hasTabs: Bool, unread: Int, ahead: Int, _ words: String?
    ) {
        if let words { context.log.warning("\(source.name): \(words)") }
        if hasTabs {
            context.log.warning(
                """
                \(source.name): tabs separate its fields, so those without quotes are read as mysql --batch \
                writes them, where \\t, \\n and \\\\ are a tab, a line break and a backslash; --from tsv says so
                """)
        }
        if ahead > 0 {
            context.log.warning(
                """
                \(source.name): \(ahead.counting("line")) \(ahead == 1 ? "names" : "name") a time of sending that is \
                ahead, so nobody knows when they were heard; set the clock of their host, or write the zone with the time
                """)
        }
        if unread > 0 {
            context.log.warning(
                """
                \(source.name): elements of arrays that the path of the token does not enter, and that were not \
                read: \(unread); write each on a line of its own, for example with jq -c '.[]'
                """)
        }
    }

    /// Whether a byte is white space, or of a byte order mark.
    private static func isBlank(_ byte: UInt8) -> Bool {
        byte <= UInt8(ascii: " ") && byte != 0 || [0xEF, 0xBB, 0xBF].contains(byte)
    }
}

extension ReportLine {
    private var sentAt: EpochMilliseconds? { (try? report.get())?.sentAt }

    /// When its notification was sent; nil where it does not say so, or names a time that is ahead, and then nobody knows
    /// when it was heard.
    fileprivate func sent(before now: EpochMilliseconds) -> EpochMilliseconds? {
        isSent(after: now) ? nil : sentAt
    }

    /// Whether it names a time that is ahead.
    fileprivate func isSent(after now: EpochMilliseconds) -> Bool {
        sentAt.map { $0 > now } ?? false
    }
}

extension GivenSource {
    /// A good export has at least a line, so one without was not written, or is another file.
    fileprivate var empty: RunFailure {
        RunFailure(
            .quarantined, .read,
            "\(name) is empty, so nothing of it was taken; look at what writes it")
    }
}

/// The reports of a batch that has none.
private struct NoReports: ReportSource {
    mutating func next(_ limit: Int) -> [NumberedReport] { [] }
}

/// The reasons of a file that APNs does not have, as a person has to hear of them.
private struct UnknownReasons {
    /// The most reasons that are told apart. Texts of a sender's own may be all different.
    private static let most = 3

    private var lines: [(reason: ProviderReason, line: Int)] = []
    private var count = 0

    mutating func add(_ reason: ProviderReason, _ line: Int) {
        count += 1
        guard lines.count < Self.most, !lines.contains(where: { $0.reason == reason }) else {
            return
        }
        lines.append((reason, line))
    }

    /// One sentence; nil where there are none.
    var words: String? {
        guard count > 0 else { return nil }
        let named = lines.map { "'\($0.reason)' (line \($0.line))" }.joined(separator: ", ")
        return
            "\(count.counting("line")) without a status \(count == 1 ? "names a reason" : "name reasons") that "
            + "APNs does not have, and \(count == 1 ? "does" : "do") not count: \(named); correct reason= in "
            + "--map or the sender, or map status=, then import the file with --again"
    }
}
