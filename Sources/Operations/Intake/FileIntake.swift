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

extension JournalApplier {
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
        if counts.sayNothing {
            context.log.warning(
                """
                \(source.name): none of \(counts.reports.counting("line")) says that a token is dead; \
                check --from and --map
                """)
        }
        guard counts.evidence > 0 || counts.quarantined > 0 else {
            return ([], IntakeReport(counts))
        }
        let name = file.again ? draft.name : Self.name(digest)
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
        let feeds = try journal.feeds(ofIntake: intake.name)
        if feeds.discarded > 0 {
            report.discarded = true
            report.discardedInPart = feeds.discarded < feeds.all ? true : nil
        }
        context.log.notice(
            """
            \(source.name): \(report.knownWords), so nothing of it is taken; --again takes it once more
            """)
        return report
    }

    /// A UUID of the first half of a digest.
    private static func name(_ digest: String) -> String {
        var name = String(digest.prefix(32))
        for place in [20, 16, 12, 8] {
            name.insert("-", at: name.index(name.startIndex, offsetBy: place))
        }
        return name
    }

    /// Reads a file to its end and returns the digest of its content and of how it is read.
    ///
    /// - Throws: as `take`.
    private func read(
        _ partition: Partition, _ layout: ReportLayout, _ source: GivenSource,
        into capture: inout ReportCapture
    ) throws -> String {
        let digest = try SHA256Digest()
        try digest.update(Array("\(partition) \(layout.canonical)\n".utf8))
        var reader = ReportLines(layout, capture.reader)
        var first = FirstLines(of: source, layout, capture.reader)
        var (shown, consumed, unread) = (0, 0, 0)
        let content = { (bytes: UnsafeRawBufferPointer) in
            // A small file may expand to a large one, of few lines or none.
            if context.interrupt.isTripped { throw source.stopped }
            try digest.update(bytes)
            first.beginning.take(bytes)
        }
        let add = { (line: ReportLine, capture: inout ReportCapture) throws in
            let evidence = capture.counts.evidence
            let refusal = try capture.add(
                line.reading, about: partition, text: Array(line.bytes),
                place: "line \(line.line)")
            // What is passed over says nothing about the options.
            if refusal != nil || capture.counts.evidence > evidence {
                try first.note(refusal, line)
            }
            unread += line.unread
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
        if let warning = try first.end(capture.counts) { context.log.warning("\(warning)") }
        if unread > 0 {
            context.log.warning(
                """
                \(source.name): elements of arrays that the path of the token does not enter, and that were not \
                read: \(unread); write each on a line of its own, for example with jq -c '.[]'
                """)
        }
        return try digest.hex()
    }
}

/// A file that was read and of which nothing was taken.
struct RefusedFile: Error {
    let failure: RunFailure
    /// The layout by which it can be read; nil where none is known.
    let layout: ReportLayout?
}

// Where each of the first lines fails for one reason, the options may be wrong and not the lines. So the
// others are tried, and where some read the lines, the import stops before a line counts. Where none do,
// it goes on: behind a hundred bad lines there may be good ones, and no option leads past the bad.

/// What the lines of a file have in common that are not passed over.
private struct FirstLines {
    /// The first bytes of the content.
    var beginning = FileBeginning()
    /// The lines that are judged, whatever stands between them.
    private var judged = FileBeginning()
    private let source: GivenSource
    private let layout: ReportLayout
    private let reader: ReportReader
    private var count = 0
    /// The first refusal, with its line; nil before it, and after a line that can be used or fails for
    /// another reason.
    private var common: (line: Int, refusal: UnusableReport)?

    init(of source: GivenSource, _ layout: ReportLayout, _ reader: ReportReader) {
        (self.source, self.layout, self.reader) = (source, layout, reader)
    }

    /// Takes a line that is evidence, or its refusal.
    ///
    /// - Throws: at the hundredth line, where each so far fails for one reason and other options read them.
    mutating func note(_ refusal: UnusableReport?, _ line: ReportLine) throws(RefusedFile) {
        count += 1
        if count == 1 {
            common = refusal.map { (line.line, $0) }
            if layout.format == .csv { judged.take(beginning.firstLine) }
        } else if common != nil, refusal?.mistake != common?.refusal.mistake {
            common = nil
        }
        guard let common, count <= FileBeginning.lines else { return }
        judged.take(Array(line.bytes) + [UInt8(ascii: "\n")])
        guard count == FileBeginning.lines, let layout = judged(isNeeded: true) else { return }
        throw failure(
            "each of the first \(count) lines that are not passed over fails", common, layout)
    }

    /// Looks at a file that has ended. Returns what to tell where each line failed for one reason and is
    /// in quarantine; nil where there is nothing to tell.
    ///
    /// - Throws: where other options read the file, or no line has the form.
    func end(_ counts: ReportCounts) throws(RefusedFile) -> String? {
        if let common {
            // More lines were tried before.
            let layout = judged(isNeeded: count < FileBeginning.lines)
            let hasForm = !common.refusal.isOfForm || count == 1 || count < counts.reports
            let lines =
                count < counts.reports
                ? "each line that is not passed over fails" : "each line fails"
            guard hasForm, layout == nil else { throw failure(lines, common, layout) }
            guard count > 1, !common.refusal.isOfForm else { return nil }
            return "\(source.name): " + words(lines, common) + "; check \(common.refusal.option)"
        }
        guard counts.sayNothing,
            let layout = beginning.layout(inPlaceOf: layout, isEnded: true, reader)
        else { return nil }
        let failure = source.failure(
            "none of \(counts.reports.counting("line")) says that a token is dead; nothing of it was taken"
                + advice(layout))
        throw RefusedFile(failure: failure, layout: layout)
    }

    private func judged(isNeeded: Bool) -> ReportLayout? {
        isNeeded ? judged.layout(inPlaceOf: layout, isEnded: true, reader) : nil
    }

    private func words(_ lines: String, _ common: (line: Int, refusal: UnusableReport)) -> String {
        "\(lines) for one reason, line \(common.line): \(common.refusal)"
    }

    private func failure(
        _ lines: String, _ common: (line: Int, refusal: UnusableReport), _ layout: ReportLayout?
    ) -> RefusedFile {
        let failure = source.failure(
            words(lines, common) + "; nothing of it was taken"
                + (layout.map(advice) ?? "; check \(common.refusal.option)"),
            layout == nil && common.refusal.isOfForm ? .quarantined : .usage)
        return RefusedFile(failure: failure, layout: layout)
    }

    /// The failure of a file that cannot be read as a whole.
    func failure(_ file: UnreadableFile) -> RefusedFile {
        let other = beginning.layout(inPlaceOf: layout, isEnded: false, reader)
        let exit = other == nil ? ExitStatus.quarantined : .usage
        let failure =
            switch file {
            case .map: source.failure("\(file)" + (other.map(advice) ?? "; check --map"))
            case .gzip: source.failure("\(file); nothing of it was taken")
            case .csv:
                source.failure(
                    "\(file); nothing of the file was taken"
                        + (other.map(advice) ?? ", correct it and import it again"), exit)
            case .json:
                source.failure(
                    "\(file); nothing of it was taken" + (other.map(advice) ?? ""), exit)
            }
        return RefusedFile(failure: failure, layout: other)
    }

    private func advice(_ other: ReportLayout) -> String {
        "; read it with \(other.options(inPlaceOf: layout))"
    }
}

extension UnusableReport {
    /// Whether the line has not the form of the file.
    fileprivate var isOfForm: Bool { if case .line = self { true } else { false } }
}

extension ReportCounts {
    /// Whether there are reports and none is about a token.
    fileprivate var sayNothing: Bool { reports > 0 && other == reports }
}
