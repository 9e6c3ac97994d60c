// Takes the reports of other senders into the journal: rows of `pushsweep_evidence`, or a file. The
// steps and their order are those of `EvidenceIntake`. What an earlier run left open is decided first.

import APNsProtocol
import Database
import EvidenceFiles
import EvidenceJournal
import Foundation
import SecureTransport
import TokenHygiene
import TokenTable

/// Moves reports into the journal of a run.
struct ReportIntake {
    private static let bytesPerPiece = 1 << 18
    private static let linesPerSign = 10_000
    /// Tries of one transaction that takes rows. Between them the database is waited for.
    private static let mostTries = 8

    let journal: EvidenceJournal
    let store: TokenTable
    let plan: SweepPlan
    let context: RunContext
    let run: String

    private var table: EvidenceIntake { EvidenceIntake(store) }

    /// Decides what an earlier run left open. Returns the counts of what is taken by it, which no
    /// report has yet; nil where nothing was open.
    ///
    /// - Throws: failures of the journal and of the database. Then the question stays open, and
    ///   nothing else may be taken.
    func settleOpenIntakes() throws -> ReportCounts? {
        var sum: ReportCounts?
        for intake in try journal.openIntakes() {
            switch try table.resolve(intake.name, run: intake.run) {
            case .taken:
                let counts = try table.counts(of: intake.name)
                _ = try journal.confirmIntake(intake, at: context.now())
                sum = sum ?? ReportCounts()
                sum? += counts
            case .void: try journal.dropIntake(intake)
            }
        }
        return sum
    }

    // MARK: Rows of the table

    /// Whether other senders report in this database.
    func hasTable() throws -> Bool { try table.visibility() == .readable }

    /// Warns where the numbers of the table are used up, so that nothing can be reported any more.
    func warnOfExhaustion() throws {
        if let sentence = try table.exhaustion() { context.log.warning("\(sentence)") }
    }

    /// Takes the next rows, at most `limit`. Returns the names of their feeds, and the counts; nil when no
    /// row waits. Where the server refuses a transaction with so many rows, the limit is halved. After a
    /// failure that passes, such as a node that is gone, the database is asked whether the rows changed
    /// hands, and they are taken again where they did not. After another failure the next run asks.
    func takeRows(
        atMost limit: inout Int
    ) throws -> (feeds: [String], counts: ReportCounts)? {
        var triesLeft = Self.mostTries
        while true {
            try journal.folder.ensureRoom()
            let intake = OpenIntake(name: UUID().uuidString.lowercased(), run: run)
            do {
                return try takeRows(as: intake, atMost: limit)
            } catch let refusal as IntakeTooLarge {
                guard limit > 1 else { throw refusal.failure }
                limit /= 2
            } catch let failure as StoreFailure where failure.code == .busy && triesLeft > 1 {
                triesLeft -= 1
            }
            switch try table.resolve(intake.name, run: run) {
            case .taken:
                let counts = try table.counts(of: intake.name)
                return (try journal.confirmIntake(intake, at: context.now()), counts)
            case .void: try journal.dropIntake(intake)
            }
        }
    }

    private func takeRows(
        as intake: OpenIntake, atMost limit: Int
    ) throws -> (feeds: [String], counts: ReportCounts)? {
        var capture = newCapture(intake, from: "pushsweep_evidence")
        let taken = try table.take(as: intake.name, run: run, limit: limit) { rows in
            for row in rows { try add(row, to: &capture) }
            try capture.flush()
            return capture.counts
        }
        guard taken > 0 else { return nil }
        return (try journal.confirmIntake(intake, at: context.now()), capture.counts)
    }

    /// Copies the rows that wait into the journal of a trial and takes none.
    func previewRows() throws -> (feeds: [String], report: IntakeReport)? {
        let intake = OpenIntake(name: UUID().uuidString.lowercased(), run: run)
        var capture = newCapture(intake, from: "pushsweep_evidence")
        var last = Int64.min
        while true {
            let rows = try table.peek(after: last, limit: 1_000)
            guard let end = rows.last?.id else { break }
            for row in rows { try add(row, to: &capture) }
            try capture.flush()
            last = end
        }
        guard capture.counts.reports > 0 else { return nil }
        var report = IntakeReport(capture.counts)
        report.waiting = capture.counts.reports
        return (try journal.confirmIntake(intake, at: context.now()), report)
    }

    private func add(_ row: EvidenceRow, to capture: inout ReportCapture) throws {
        let place = "row \(row.id)"
        guard plan.partitions[row.partition] != nil else {
            return try capture.refuse(
                Array(row.line.utf8),
                "\(place): the settings name no app \(Self.short(row.partition.app)) in environment "
                    + "\(Self.short(row.partition.environment)); name it under apps or correct the "
                    + "sender, then export this feed and import it")
        }
        try capture.add(
            row.report.map { $0 }, about: row.partition, text: Array(row.line.utf8), place: place)
    }

    /// A name that may be a token in the wrong column.
    static func short(_ name: String) -> String {
        if name.isEmpty { return "''" }
        return name.count > 20 ? name.prefix(12) + "…" : name
    }

    private func newCapture(_ intake: OpenIntake, from label: String) -> ReportCapture {
        ReportCapture(
            intake, in: journal, from: label, mayUseArrival: plan.mayUseArrival,
            at: context.now())
    }

    // MARK: Files

    /// Takes the reports of a file. Returns the names of their feeds, and the counts. The same
    /// content, read in the same way for the same app, is taken once.
    ///
    /// - Throws: usage for a file that cannot be opened or read; then nothing of it is taken.
    func take(_ file: SweepPlan.ReportFile) throws -> (feeds: [String], report: IntakeReport) {
        // The final name follows from the content, which is known only after its last byte.
        let draft = OpenIntake(name: UUID().uuidString.lowercased(), run: run)
        try journal.folder.ensureRoom()
        var capture = newCapture(draft, from: file.path == "-" ? "standard input" : file.path)
        let digest: String
        do {
            digest = try read(file, into: &capture)
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
        if counts.reports > 0, counts.other == counts.reports {
            context.log.warning(
                """
                \(file.path): none of \(counts.reports.counting("line")) says that a token is dead; \
                check --map and --format
                """)
        }
        guard counts.evidence > 0 || counts.quarantined > 0 else {
            return ([], IntakeReport(counts))
        }
        let name = file.again ? draft.name : Self.name(digest)
        try journal.renameIntake(draft.name, to: name)
        let intake = OpenIntake(name: name, run: run)
        guard try table.claim(name, run: run, counts) else {
            try journal.dropIntake(intake)
            var report = IntakeReport()
            report.known = true
            context.log.notice(
                """
                \(file.path): the same content was imported before, so nothing of it is taken; \
                --again takes it once more
                """)
            return ([], report)
        }
        return (try journal.confirmIntake(intake, at: context.now()), IntakeReport(counts))
    }

    /// A UUID of the first half of a digest.
    private static func name(_ digest: String) -> String {
        let digits = Array(digest.prefix(32))
        var parts: [String] = []
        var start = 0
        for length in [8, 4, 4, 4, 12] {
            parts.append(String(digits[start..<start + length]))
            start += length
        }
        return parts.joined(separator: "-")
    }

    /// Reads a file to its end and returns the digest of its content and of how it is read.
    private func read(
        _ file: SweepPlan.ReportFile, into capture: inout ReportCapture
    ) throws -> String {
        let handle = try open(file.path)
        defer { if file.path != "-" { try? handle.close() } }
        let digest = try SHA256Digest()
        try digest.update(Array("\(file.partition) \(file.layout.canonical)\n".utf8))
        var reader = ReportLines(file.layout)
        let size = Self.size(of: handle)
        var (shown, consumed) = (0, 0)
        let add = { (line: ReportLine, capture: inout ReportCapture) throws in
            try capture.add(
                line.report, about: file.partition, text: line.record.bytes,
                place: "line \(line.record.line)")
            if size == nil, capture.counts.reports - shown >= Self.linesPerSign {
                shown = capture.counts.reports
                context.progress.show("importing (lines)", shown, of: nil)
            }
        }
        do {
            while let bytes = try handle.read(upToCount: Self.bytesPerPiece), !bytes.isEmpty {
                if context.interrupt.isTripped { throw RunFailure.stopped }
                try bytes.withUnsafeBytes { piece in
                    try reader.take(
                        piece, content: { try digest.update($0) }, { try add($0, &capture) })
                }
                consumed += bytes.count
                if let size { context.progress.show("importing (bytes)", consumed, of: size) }
            }
            try reader.finish { try add($0, &capture) }
        } catch let refusal as FieldMapRefusal {
            throw unusable(file.path, "\(refusal); check --map")
        } catch let failure as GunzipFailure {
            throw unusable(file.path, "\(failure); nothing of it was taken")
        } catch let error as CocoaError {
            throw unusable(
                file.path, "\(error.localizedDescription); nothing of it was taken, run again")
        }
        return try digest.hex()
    }

    /// Number of bytes of a regular file, compressed or not; nil for a pipe.
    private static func size(of handle: FileHandle) -> Int? {
        var facts = stat()
        guard fstat(handle.fileDescriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else {
            return nil
        }
        return Int(facts.st_size)
    }

    private func open(_ path: String) throws(RunFailure) -> FileHandle {
        if path == "-" { return .standardInput }
        guard let handle = FileHandle(forReadingAtPath: path) else {
            throw unusable(path, String(cString: strerror(errno)))
        }
        var facts = stat()
        if fstat(handle.fileDescriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFDIR {
            throw unusable(path, "it is a directory")
        }
        return handle
    }

    private func unusable(_ path: String, _ cause: String) -> RunFailure {
        RunFailure(.usage, .read, "importing \(path): \(cause)")
    }
}
