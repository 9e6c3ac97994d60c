// Takes the log or export of another sender into the journal. A file is read once, into a draft that
// `pushsweep_intake` makes final; after any failure the draft is dropped, so nothing of the file counts.

import APNsProtocol
import Database
import Encodings
import EvidenceFiles
import EvidenceJournal
import Foundation
import SecureTransport
import TokenHygiene

extension JournalIntake {
    private static let linesPerSign = 10_000

    /// Takes the reports of a file. Returns the names of their feeds, and the counts. The same
    /// content, read in the same way for the same app, is taken once.
    ///
    /// - Throws: usage for a file that cannot be read; `RefusedFile` for one that does not fit the options
    ///   (usage) or has a fault of its structure (exit 65). Then nothing of it is taken.
    func take(
        _ file: SweepPlan.GivenFile, _ layout: ReportLayout, _ source: GivenSource
    ) throws -> (feeds: [String], report: IntakeReport) {
        // The final name follows from the content, which is known only after its last byte.
        let draft = newIntake
        try journal.folder.ensureRoom()
        var capture = newCapture(draft, from: source.name)
        let digest: String
        do {
            digest = try read(file.partition, layout, source, into: &capture)
            try capture.flush()
        } catch {
            context.progress.clear()
            try journal.dropIntake(draft)
            throw error
        }
        context.progress.clear()
        if plan.dryRun {
            let feeds = try journal.confirmIntake(draft, at: context.now())
            return (feeds, IntakeReport(capture.counts))
        }
        let counts = capture.counts
        guard counts.evidence > 0 || counts.quarantined > 0 else {
            return ([], IntakeReport(counts))
        }
        let name = file.again ? draft.name : UUIDText.name(digest)
        try journal.renameIntake(draft.name, to: name)
        let open = OpenIntake(name: name, run: run)
        guard try intake.claim(name, run: run, counts) else {
            return ([], try known(open, source))
        }
        return (try journal.confirmIntake(open, at: context.now()), IntakeReport(counts))
    }

    /// Drops a content that was imported before, and says what became of it then.
    private func known(_ intake: OpenIntake, _ source: GivenSource) throws -> IntakeReport {
        try journal.dropIntake(intake)
        var report = IntakeReport()
        report.known = true
        let states = try journal.feeds(ofIntake: intake.name).map {
            try evidence.batches.batch($0)?.state
        }
        report.holds = states.contains(.held)
        let discarded = states.count { $0 == .discarded }
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
        into capture: inout ReportCapture
    ) throws -> String {
        let digest = try SHA256Digest()
        let whose = partition.map { "\($0)" } ?? "the app of each line"
        try digest.update(Array("\(whose) \(layout.canonical)\n".utf8))
        var reader = ReportLines(layout, capture.reader)
        var first = FirstLines(of: source, layout, capture.reader)
        var (shown, consumed, unread, isBlank) = (0, 0, 0, true)
        var unknown = UnknownReasons()
        let content = { (bytes: UnsafeRawBufferPointer) in
            // A small file may expand to a large one, of few lines or none.
            if context.interrupt.isTripped { throw source.stopped }
            try digest.update(bytes)
            first.beginning.take(bytes)
            if isBlank { isBlank = bytes.allSatisfy(Self.isBlank) }
        }
        let add = { (line: ReportLine, capture: inout ReportCapture) throws in
            let evidence = capture.counts.evidence
            let (named, reading) = about(line, partition)
            let refusal = try capture.add(
                reading, about: named, text: Array(line.bytes), place: "line \(line.line)")
            // What is passed over says nothing about the options.
            if refusal != nil || capture.counts.evidence > evidence {
                try first.note(refusal, line)
            }
            unread += line.unread
            if case .success(.unknownReason(let reason)) = line.reading {
                unknown.add(reason, line.line)
            }
            if capture.counts.reports - shown >= Self.linesPerSign {
                shown = capture.counts.reports
                context.progress.show("importing (lines)", shown, of: nil)
            }
        }
        do {
            while try source.next({ piece in
                try reader.take(piece, content: content, { try add($0, &capture) })
                consumed += piece.count
                if let size = source.length {
                    context.progress.show("importing (bytes)", consumed, of: size)
                }
            }) {}
            try reader.finish(content: content, { try add($0, &capture) })
        } catch let text as Refusal {
            throw RefusedFile(failure: source.failure("\(text)", .quarantined), layout: nil)
        } catch let file as UnreadableFile {
            throw first.failure(file)
        }
        guard !isBlank else { throw RefusedFile(failure: source.empty, layout: nil) }
        for warning in try first.end(capture.counts) { context.log.warning("\(warning)") }
        if let words = unknown.words {
            context.log.warning("\(source.name): \(words)")
        }
        tell(of: source, hasTabs: reader.hasTabs, unread: unread)
        return try digest.hex()
    }

    /// The app and environment of a line, and what it says; that it cannot be used where it names none of the
    /// settings.
    private func about(
        _ line: ReportLine, _ given: Partition?
    ) -> (Partition, Result<ReportReading, UnusableReport>) {
        if let given { return (given, line.reading) }
        switch line.reading {
        case .success(.evidence), .success(.suspect): break
        case .success, .failure: return (.noApp, line.reading)
        }
        let object = Array(line.bytes).withUnsafeBytes { JSONObject($0) }
        guard case .text(let app) = object?["app"],
            case .text(let environment) = object?["environment"]
        else { return (.noApp, .failure(.line("it names no app and environment"))) }
        let named = Partition(app: app, environment: environment)
        guard plan.partitions[named] == nil else { return (named, line.reading) }
        return (
            .noApp,
            .failure(
                .line("the settings name no \(named.shortened); correct it, or name --app"))
        )
    }

    /// Says what was read in another way than the options say, and what was not read.
    private func tell(of source: GivenSource, hasTabs: Bool, unread: Int) {
        if hasTabs {
            context.log.warning(
                """
                \(source.name): tabs separate its fields, so those without quotes are read as mysql --batch \
                writes them, where \\t, \\n and \\\\ are a tab, a line break and a backslash; --from tsv says so
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

extension GivenSource {
    /// A good export has at least a line, so one without was not written, or is another file.
    fileprivate var empty: RunFailure {
        RunFailure(
            .quarantined, .read,
            "\(name) is empty, so nothing of it was taken; look at what writes it")
    }
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
