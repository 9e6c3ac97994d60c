// Where each of the first lines fails for one reason, the options may be wrong and not the lines. So the
// others are tried, and where some read the lines, the import stops before a line counts. Where none do,
// it goes on: behind a hundred bad lines there may be good ones, and no option leads past the bad. At the
// end of the file nothing of it is taken where no line has its form, where no unit reads its times, or where
// text stands beside each JSON object that a field is looked for in: it would be the same at each try again.

import Encodings
import EvidenceFiles
import TokenHygiene

/// A file that was read and of which nothing was taken.
struct RefusedFile: Error {
    let failure: RunFailure
    /// The layout by which it can be read; nil where none is known.
    let layout: ReportLayout?
    /// A warning before the failure, such as the command that mends the file; nil where there is none.
    var note: String?
}

/// What the lines of a file have in common that are not passed over.
struct FirstLines {
    /// What time a line has may say, with the option for each.
    private static let timesRead =
        "a time is read as milliseconds since 1970 (1700000000123), as seconds (1700000000.123, with "
        + "--time-unit s), or as a date (2023-11-14, 2023-11-14 22:13:20.123 in UTC, 2023-11-14T22:13:20+01:00, "
        + "with --time-unit iso); write it so"

    private typealias Failing = (line: Int, refusal: UnusableReport)

    /// The first bytes of the content.
    var beginning = FileBeginning()
    /// The lines that are judged, whatever stands between them.
    private var judged = FileBeginning()
    private let source: GivenSource
    private let layout: ReportLayout
    private let reader: ReportReader
    private var count = 0
    /// The first refusal, with its line; nil before it, and after a line that can be used or fails for
    /// another reason. Of lines without the form of the file the first that leads to a cure.
    private var common: Failing?
    /// The first line with a time that its unit does not read.
    private var unreadTime: Failing?

    init(of source: GivenSource, _ layout: ReportLayout, _ reader: ReportReader) {
        (self.source, self.layout, self.reader) = (source, layout, reader)
    }

    /// Takes a line that is evidence, or its refusal.
    ///
    /// - Throws: at the hundredth line, where each so far fails for one reason and other options read them.
    mutating func note(_ refusal: UnusableReport?, _ line: ReportLine) throws(RefusedFile) {
        count += 1
        if unreadTime == nil, let refusal, refusal.isUnreadTime {
            unreadTime = (line.line, refusal)
        }
        if count == 1 {
            common = refusal.map { (line.line, $0) }
            if layout.format != .jsonl { judged.take(beginning.firstLine) }
        } else if let known = common?.refusal {
            if refusal?.mistake != known.mistake {
                common = nil
            } else if let refusal, refusal.hasCure, !known.hasCure {
                common = (line.line, refusal)
            }
        }
        guard let common, count <= FileBeginning.lines else { return }
        judged.take(Array(line.bytes) + [UInt8(ascii: "\n")])
        guard count == FileBeginning.lines, let other = judged(isNeeded: true) else { return }
        throw failure(
            "each of the first \(count) lines that are not passed over fails for one reason",
            common,
            other)
    }

    /// Looks at a file that has ended. Returns what to tell where each line failed for one reason and is
    /// in quarantine, or where none says anything.
    ///
    /// - Throws: where nothing of the file may be taken.
    func end(_ counts: ReportCounts) throws(RefusedFile) -> [String] {
        let lines =
            count < counts.reports
            ? "each line that is not passed over fails for one reason"
            : "each line fails for one reason"
        var told: [String] = []
        if let common {
            // More lines were tried before.
            let other = judged(isNeeded: count < FileBeginning.lines)
            let isOfFile = common.refusal.isOfForm && count > 1 && count == counts.reports
            guard other == nil, !isOfFile, !common.refusal.isUnreadTime,
                !common.refusal.isBesideText
            else { throw failure(lines, common, other) }
            if count > 1, !common.refusal.isOfForm {
                told.append(
                    "\(source.name): " + words(lines, common) + "; check \(common.refusal.option)")
            }
        }
        if counts.evidence == 0, let unreadTime {
            throw failure("no line can be used, for several reasons", unreadTime, nil)
        }
        if counts.sayNothing { return try endInSilence(counts) }
        if counts.evidence + counts.suspects == 0, counts.other > 0 {
            told.append(
                "\(source.name): no line that can be used says that a token is dead; check --from and --map"
            )
        }
        return told
    }

    /// Looks at a file of which no line could be about a token of Apple's.
    private func endInSilence(_ counts: ReportCounts) throws(RefusedFile) -> [String] {
        let words = "none of \(counts.reports.counting("line")) says that a token is dead"
        if let other = beginning.layout(inPlaceOf: layout, isEnded: true, reader) {
            throw refused(words + "; nothing of it was taken" + advice(other), .usage, other)
        }
        let hint = layout.hint.map { "; \($0)" } ?? ""
        if beginning.isTextOfGorush, layout.hint != nil {
            throw refused(
                words + ": msg has the text format of gorush; nothing of it was taken" + hint,
                .quarantined)
        }
        if let command = beginning.jqCommand(for: layout, reader) {
            throw refused(
                words
                    + ", and the elements of a list in it do; nothing of it was taken; write each on a line "
                    + "of its own with: \(command)", .quarantined)
        }
        // What is counted beside the silent lines has a sentence of its own.
        if counts.unknownReasons > 0 { return [] }
        guard counts.otherPlatform < counts.reports else {
            return layout.hasOwnPlatform
                ? ["\(source.name): each line names another platform; check platform= in --map"]
                : []
        }
        return ["\(source.name): \(words); check --from and --map" + hint]
    }

    private func judged(isNeeded: Bool) -> ReportLayout? {
        isNeeded ? judged.layout(inPlaceOf: layout, isEnded: true, reader) : nil
    }

    private func words(_ lines: String, _ failing: Failing) -> String {
        "\(lines), line \(failing.line): \(failing.refusal)"
    }

    private func failure(
        _ lines: String, _ failing: Failing, _ other: ReportLayout?
    ) -> RefusedFile {
        let refusal = failing.refusal
        var cure = "; check \(refusal.option)" + (layout.hint.map { "; \($0)" } ?? "")
        if refusal.isUnreadTime { cure = "; \(Self.timesRead)" }
        if refusal.hasCure { cure = "" }
        var refused = refused(
            words(lines, failing) + "; nothing of it was taken" + (other.map(advice) ?? cure),
            other == nil && refusal.concernsFile ? .quarantined : .usage, other)
        if other == nil, case .nested(let path, _) = refusal, layout.format == .jsonl {
            let filter =
                #"(\#(path) | strings) |= (sub("^[^{]*"; "") | sub("[^}]*$"; ""))"#
            refused.note =
                "\(source.name): cut the text in \(path) off with: jq -c \(filter.shellWord) FILE | "
                + "pushsweep import - " + layout.options.map(\.shellWord).joined(separator: " ")
        }
        return refused
    }

    private func refused(
        _ cause: String, _ exit: ExitStatus, _ other: ReportLayout? = nil
    ) -> RefusedFile {
        RefusedFile(failure: source.failure(cause, exit), layout: other)
    }

    /// The failure of a file that cannot be read as a whole.
    func failure(_ file: UnreadableFile) -> RefusedFile {
        // No option is named for a file whose rows nobody can know.
        if case .doubt = file {
            return refused(
                "\(file); nothing of the file was taken; if mysql --batch wrote it, or another program that "
                    + "quotes nothing, read it with --from tsv; else export it with commas",
                .quarantined)
        }
        let other = beginning.layout(inPlaceOf: layout, isEnded: false, reader)
        let exit = other == nil ? ExitStatus.quarantined : .usage
        return switch file {
        case .map: refused("\(file)" + (other.map(advice) ?? "; check --map"), .usage, other)
        case .gzip: refused("\(file); nothing of it was taken", .usage, other)
        case .csv, .doubt:
            refused(
                "\(file); nothing of the file was taken"
                    + (other.map(advice) ?? ", correct it and import it again"), exit, other)
        case .json(let clause, let command):
            // The command that leads to reports, where one does.
            refused(
                "\(UnreadableFile.json(clause, command: beginning.jqCommand(for: layout, reader) ?? command)); "
                    + "nothing of it was taken" + (other.map(advice) ?? ""), exit, other)
        }
    }

    private func advice(_ other: ReportLayout) -> String {
        "; read it with \(other.options(inPlaceOf: layout))"
    }
}

extension UnusableReport {
    /// Whether the line has not the form of the file.
    fileprivate var isOfForm: Bool { if case .form = self { true } else { false } }

    /// Whether a command is known that gives the line the form of the file.
    fileprivate var hasCure: Bool { if case .form(_, .some) = self { true } else { false } }

    /// Whether text stands beside the JSON object that a field is looked for in.
    fileprivate var isBesideText: Bool {
        if case .nested(_, isCut: false) = self { true } else { false }
    }

    /// Whether no option reads lines that fail so, and the file has to be written in another way.
    fileprivate var concernsFile: Bool { isOfForm || isUnreadTime || isBesideText }
}
