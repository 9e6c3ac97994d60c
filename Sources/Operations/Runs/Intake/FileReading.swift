// Reads a file line by line, and says what a person has to know of how it was read.

import APNsProtocol
import Encodings
import EvidenceFiles
import EvidenceJournal
import Findings
import SecureTransport
import TokenHygiene
import TokenTable

extension ReportIntake {
    /// Reads a file to its end, behind what was read before, and returns what its content is called and what a later
    /// import may know of it.
    ///
    /// - Throws: as `take`.
    func read(
        _ partition: Partition?, _ layout: ReportLayout, _ source: GivenSource, _ terms: [UInt8],
        behind before: ReadBefore?, into reports: inout ReadReports
    ) throws -> (name: String, taken: TakenContent?) {
        let (now, refused) = (evidence.now, try store.refusalTimes(mustSee: !plan.dryRun))
        let digest = try ContentDigest(terms, behind: before)
        let isProven = before?.isProven ?? false
        var reader = ReportLines(layout, reports.reader, behind: before?.beginning)
        var first = FirstLines(of: source, layout, reports.reader)
        var (consumed, unread, ahead, isBlank) = (0, 0, 0, true)
        var unknown = UnknownReasons()
        let content = { (bytes: UnsafeRawBufferPointer, whole: Int) in
            // A small file may expand to a large one, of few lines or none.
            if context.interrupt.isTripped { throw source.stopped }
            try digest.take(bytes, whole: whole)
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
            // What is passed over says nothing about the options, and the beginning has proved them.
            if !isProven, refusal != nil || reports.counts.evidence > evidence {
                try first.note(refusal, line)
            }
            unread += line.unread
            if case .success(.unknownReason(let reason)) = line.reading {
                unknown.add(reason, line.line)
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
        if !isProven, before == nil || reports.counts.reports > 0 {
            for warning in try first.end(reports.counts) { context.log.warning("\(warning)") }
        }
        tell(of: source, hasTabs: reader.hasTabs, unread: unread, ahead: ahead, unknown.words)
        let (all, taken) = try digest.end(whole: reader.whole)
        return (UUIDText.name(all), taken)
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
