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
    /// - Throws: usage for a file that cannot be read or does not fit the map, exit 65 for a fault of its
    ///   structure; then nothing of it is taken.
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
                check --map and --from
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
    /// - Throws: usage or exit 65 for a file of which nothing may be taken.
    private func read(
        _ partition: Partition, _ layout: ReportLayout, _ source: GivenSource,
        into capture: inout ReportCapture
    ) throws -> String {
        let digest = try SHA256Digest()
        try digest.update(Array("\(partition) \(layout.canonical)\n".utf8))
        var reader = ReportLines(layout)
        var first = FirstLines(of: source, layout, capture.reader)
        var (shown, consumed, unread) = (0, 0, 0)
        let content = { (bytes: UnsafeRawBufferPointer) in
            // A small file may expand to a large one, of few lines or none.
            if context.interrupt.isTripped { throw source.stopped }
            try digest.update(bytes)
            first.beginning.take(bytes)
        }
        let add = { (line: ReportLine, capture: inout ReportCapture) throws in
            let refusal = try capture.add(
                line.report, about: partition, text: line.bytes, place: "line \(line.line)")
            try first.note(refusal, line: line.line)
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
        } catch let text as ForeignText {
            throw source.failure("\(text)", .quarantined)
        } catch let file as UnreadableFile {
            throw first.failure(file)
        }
        try first.end(capture.counts)
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

/// What the first lines of a file have in common. Where each fails for one reason, the options are wrong
/// and not the lines, so the import stops before a line is kept.
private struct FirstLines {
    /// The first bytes of the content.
    var beginning = FileBeginning()
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

    /// Takes the refusal of a line, or that there is none.
    ///
    /// - Throws: after the hundredth line, where each so far fails for one reason.
    mutating func note(_ refusal: UnusableReport?, line: Int) throws(RunFailure) {
        guard count < FileBeginning.lines else { return }
        count += 1
        if count == 1 {
            common = refusal.map { (line, $0) }
        } else if refusal?.mistake != common?.refusal.mistake {
            common = nil
        }
        guard count == FileBeginning.lines, let common else { return }
        let options = beginning.options(inPlaceOf: layout, isEnded: false, reader)
        throw failure("each of the first \(count) lines fails", common, options)
    }

    /// Looks at a file that has ended, which may be shorter. The values of a few lines may fail for one
    /// reason by chance, so then only options that read them stop the import.
    ///
    /// - Throws: where other options read the file, or no line has the form.
    func end(_ counts: ReportCounts) throws(RunFailure) {
        guard count < FileBeginning.lines && common != nil || counts.sayNothing else { return }
        let options = beginning.options(inPlaceOf: layout, isEnded: true, reader)
        if let common, options != nil || count > 1 && common.refusal.isOfForm {
            throw failure("each line fails", common, options)
        }
        guard let options, common == nil else { return }
        throw source.failure(
            "none of \(counts.reports.counting("line")) says that a token is dead; nothing of it was taken; "
                + Self.advice(options))
    }

    private func failure(
        _ lines: String, _ common: (line: Int, refusal: UnusableReport), _ options: String?
    ) -> RunFailure {
        source.failure(
            "\(lines) for one reason, line \(common.line): \(common.refusal); nothing of it was taken; "
                + (options.map(Self.advice) ?? "check \(common.refusal.option)"),
            options == nil && common.refusal.isOfForm ? .quarantined : .usage)
    }

    /// The failure of a file that cannot be read as a whole.
    func failure(_ file: UnreadableFile) -> RunFailure {
        let options = beginning.options(inPlaceOf: layout, isEnded: false, reader)
        let advice = options.map { "; " + Self.advice($0) } ?? ""
        switch file {
        case .map: return source.failure("\(file)" + (options == nil ? "; check --map" : advice))
        case .gzip: return source.failure("\(file); nothing of it was taken")
        case .csv:
            return source.failure(
                "\(file); nothing of the file was taken"
                    + (options == nil ? ", correct it and import it again" : advice),
                options == nil ? .quarantined : .usage)
        case .json:
            return source.failure(
                "\(file); nothing of it was taken" + advice,
                options == nil ? .quarantined : .usage)
        }
    }

    private static func advice(_ options: String) -> String { "read it with \(options)" }
}

extension UnusableReport {
    /// Whether the line has not the form of the file.
    fileprivate var isOfForm: Bool { if case .line = self { true } else { false } }
}

extension ReportCounts {
    /// Whether there are reports and none is about a token.
    fileprivate var sayNothing: Bool { reports > 0 && other == reports }
}
