// Checks everything that can be checked before a list is read or a notification is sent: the settings
// and their sources, certificates and keys, the state folder, the gateways, the database. `check` never
// connects to a feedback gateway, because that would clear its list. It connects to each provider for at
// most ten seconds, completes the handshake only with a server that speaks HTTP/2, and sends no request.

import APNsConnection
import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Findings
import Glibc
import Operations
import SchemaLook
import SecureTransport
import Settings
import TokenHygiene
import TokenTable

/// Examines everything that sweeping and sending need, and changes nothing.
package struct Check {
    let settings: Settings
    let context: RunContext
    var report = CheckReport()
    /// What the rules judge, besides what examinations find.
    var facts: Facts
    /// Files that are missing or not regular. They are reported once.
    private var missing: Set<String> = []

    private init(_ settings: Settings, _ context: RunContext) {
        self.settings = settings
        self.context = context
        facts = Facts(.check, settings, apps: settings.apps, now: context.now())
    }

    /// Examines the settings and the files, folders and servers that they name. `ignore` names findings to live with.
    package static func run(
        _ settings: Settings, ignoring ignore: IgnoreList = .none, _ context: RunContext
    ) -> CheckReport {
        var check = Check(settings, context)
        check.examineSettings()
        check.examineFiles()
        check.examineState()
        check.examineMetrics()
        for app in settings.apps {
            let isUsable = check.examineCertificate(app)
            // With a token key the certificate is not shown to the provider.
            if isUsable || app.tokenKey != nil && app.binary == nil { check.examineSending(app) }
        }
        check.examineStore()
        check.report.grants = check.report.grants.reduce(into: []) { all, grant in
            if !all.contains(grant) { all.append(grant) }
        }
        check.facts.examined = check.report.findings.filter { !$0.rule.isEmpty }
        let well = check.report.findings.filter(\.rule.isEmpty)
        check.report.enter(well + RuleBook.findings(check.facts, ignoring: ignore))
        return check.report
    }

    private mutating func examineSettings() {
        report.settings = settings.origins.map {
            CheckReport.Setting(
                key: $0.key, value: $0.shownValue, origin: $0.origin.description)
        }
        report.well(
            "settings",
            settings.file.map { "read from \($0)" }
                ?? "there is no settings file, so defaults count; name one with --config")
        if settings.apps.isEmpty {
            report.note(
                "no-app", "settings",
                "no app is named, so there is nothing to sweep or to send")
        }
        if settings.policy.deletesAfter != nil && settings.policy.action == .mark {
            report.note(
                "setting-without-effect", "settings",
                "policy.delete-after has no effect while policy.action is mark")
        }
        for app in settings.apps where app.feedback == nil {
            report.well(
                "settings",
                "\(app.partition) has no feedback gateway; its evidence comes from senders")
        }
    }

    /// Reports every file that is missing or not regular. The code that loads them would stop at the
    /// first.
    private mutating func examineFiles() {
        for (key, path) in settings.files {
            var file = stat()
            let error = stat(path, &file) == 0 ? 0 : errno
            let isMissing = [ENOENT, ENOTDIR].contains(error)
            // A library that opens a pipe waits for its writer.
            let isIrregular = error == 0 && file.st_mode & S_IFMT != S_IFREG
            guard isMissing || isIrregular else { continue }
            missing.insert(path)
            let fault =
                isMissing
                ? "no such file; check the path in the settings"
                : "it is not a regular file; give the file itself"
            report.fail(
                "missing-file", "settings", .configuration, "opening \(path) of \(key): \(fault)")
        }
    }

    func areThere(_ paths: String?...) -> Bool {
        paths.allSatisfy { path in path.map { !missing.contains($0) } ?? true }
    }

    /// Checks a state folder as the next run will, before anything in it is read. A check creates no
    /// folder, because the folder could belong to the wrong user then.
    private mutating func examineState() {
        var file = stat()
        if stat(settings.state, &file) == 0, file.st_mode & S_IFMT != S_IFDIR {
            report.fail(
                "state-unusable", "state", .cannotCreate,
                "\(settings.state) is no folder; move it away, or name another folder in state:")
            return
        }
        do {
            try StateFolder.examine(settings.state)
        } catch {
            report.fail("state-unusable", "state", .wrapping(error, at: .state))
            return
        }
        guard access(settings.state, F_OK) == 0 else {
            examinePlace(for: settings.state)
            return
        }
        examineSenders()
        guard access(settings.state + "/journal.sqlite", F_OK) == 0 else {
            report.well("state", "\(settings.state) holds no journal yet")
            return
        }
        do {
            let folder = try StateFolder(settings.state)
            try folder.ensureRoom()
            try examineJournal(in: folder, waiting: "the next sweep applies it")
        } catch  where error.code == .locked {
            report.note("state-unusable", "state", "\(error)")
        } catch {
            report.fail("state-unusable", "state", .wrapping(error, at: .state))
        }
    }

    /// Checks whether the folder could be created, by its nearest existing parent.
    private mutating func examinePlace(for folder: String) {
        var parent = folder
        repeat {
            parent = parent.parentPath
        } while access(parent, F_OK) != 0
        guard access(parent, W_OK | X_OK) == 0 else {
            report.fail(
                "state-unusable", "state", .cannotCreate,
                "\(folder) is not there and this user may not make it in \(parent); make it for the "
                    + "user who sweeps (install -d -o USER -m 0700), or name another folder in state:"
            )
            return
        }
        report.well("state", "\(folder) is not there yet; the first run makes it")
    }

    /// Checks whether the metrics file could be replaced.
    private mutating func examineMetrics() {
        guard let path = settings.metricsFile else { return }
        let folder = path.parentPath
        guard access(folder, W_OK | X_OK) == 0 else {
            report.fail(
                "metrics-file", "report", .cannotCreate,
                "report.metrics-file is \(path), and this user cannot write to \(folder): "
                    + "\(String(cString: strerror(errno)).lowercased()); make the folder, give this user "
                    + "the right to write there, or name another file")
            return
        }
        if path.hasSuffix(".prom") {
            report.well("report", "metrics go to \(path)")
        } else {
            report.note(
                "metrics-file", "report",
                "report.metrics-file is \(path), and the node exporter reads only files whose name "
                    + "ends in .prom; rename it, unless something else reads it")
        }
    }

    /// Checks the folders that senders left when they ended. Folders of living senders are not
    /// checked.
    private mutating func examineSenders() {
        let (folders, problems) = SenderFolders.abandoned(in: settings.state)
        for problem in problems {
            report.fail("state-unusable", "state", .wrapping(problem, at: .state))
        }
        for folder in folders {
            do {
                try examineJournal(in: folder, waiting: "the next send or sweep applies it")
                let left = try AnswerLog.leftReports(in: folder).values.reduce(0, +)
                guard left > 0 else { continue }
                report.note(
                    "waiting-evidence", "state",
                    "\(left.counting("answer")) against tokens that a sender left in \(folder.path) "
                        + "wait; the next send or sweep stores them")
            } catch {
                report.fail("state-unusable", "state", .wrapping(error, at: .state))
            }
        }
    }

    private mutating func examineJournal(
        in folder: StateFolder, waiting: String
    ) throws(JournalFailure) {
        let facts = try HostFacts.Journal(EvidenceJournal(in: folder))
        for file in try folder.damagedFiles {
            report.note("state-unusable", "state", folder.damage(file))
        }
        report.well("state", "\(folder.path) is private and writable")
        for list in facts.lists(in: .reading, .pending, .held) {
            report.note(
                "waiting-evidence", "state",
                "list \(list.id) of \(list.partition), \(list.bytes.counting("byte")), is "
                    + "\(list.state.rawValue)" + (list.cause.map { ": \($0)" } ?? "") + "; "
                    + waiting)
            report.noteWaiting(isHeld: false)
        }
        withExtendedLifetime(folder) {}
    }

    private mutating func examineStore() {
        // A database in a refused state folder is not opened. The refusal is in the report already.
        guard areThere(settings.store.tls.ca), (try? settings.ensureOwnStore()) != nil else {
            return
        }
        do {
            let policy = settings.policy
            // Each question would wait for a dead shard on its own, and a person waits for the answer.
            let store = try openStore(
                Pacing(settings).with(patience: Pacing.shortPatience))
            enter(try store.session.examineServer())
            facts.clock = try ClockDifference(to: store, context.now)
            enter(
                try store.examineWithLook(
                    .apply(policy), partitions: settings.apps.map(\.storedPartition)
                ).findings)
            // A table that does not fit has neither marks nor a lease, and that is said already.
            let stored = settings.apps.map(\.storedPartition)
            facts.stranded = (try? store.strandedMarks(stored)) ?? nil
            if let lease = try? store.leaseName() {
                enter(try store.session.examineThrottle(lease: lease))
            }
            enter(try store.examineIntake())
            let batches = BatchFacts(store)
            // That they cannot be seen is among the findings about rights.
            if batches.unseen == nil { facts.batches = batches }
            examineBatches(batches)
            try facts.readMisplaced(store)
            facts.pulse = PulseLook(settings, store)
            if let unseen = facts.pulse?.unseen {
                report.note(unseen.code.rule, "database", unseen.sentence)
            }
            readSweeps(store)
            examineOwner(store)
            report.grants = (try? store.grants(for: policy)) ?? []
            report.grants += (try? store.intakeGrants()) ?? []
            report.grants += (try? store.session.lagGrants()) ?? []
            report.grants += (try? store.session.groupGrants()) ?? []
            try examineQueue(store)
        } catch {
            // Without its hint, which names this command.
            report.fail(error.code.rule, "database", error.exitOfReading, error.sentence)
        }
    }

    /// Compares the database with that to which the state folder belongs.
    private mutating func examineOwner(_ store: TokenTable) {
        guard let host = facts.host else { return }
        let difference = (try? FolderBinding.difference(host, store)) ?? nil
        if let difference {
            return report.fail("state-unusable", "state", .configuration, difference)
        }
        let journal = host.journals.first { $0.sender == nil }?.journal
        guard let owner = try? journal?.folder.database else { return }
        report.well("state", "\(settings.state) belongs to database \(owner), as this one")
    }

    /// Reads when sweeps ended well, and the rhythm of other runs. That it cannot is no reason to look no further.
    private mutating func readSweeps(_ store: TokenTable) {
        var host = HostFacts(in: settings.state)
        do {
            facts.sweeps = try SweepFacts(
                &host, store, context.now(), hours: SweepFacts.usualHours)
        } catch {
            report.note(error.code.rule, "database", error.sentence)
        }
        facts.runs = RunRhythm(&host, context.now())
        facts.host = host
    }

    /// Opens the database as a run does, so that the host is examined which a run would use. Where a run
    /// would use none, any host answers: the findings say why, or the failure is entered beside them.
    private mutating func openStore(_ pacing: Pacing) throws(StoreFailure) -> TokenTable {
        do {
            return try TokenTable(StoreSettings(settings, for: .changes), pacing: pacing)
        } catch {
            let isRefused = [.configuration, .readOnly].contains(error.code)
            let mayAnswer: Bool =
                switch settings.store.location {
                case .server(let server): isRefused || server.addresses.count > 1
                case .sqlite: isRefused
                }
            let asked = StoreSettings(settings, for: .reports)
            guard mayAnswer, let store = try? TokenTable(asked, pacing: pacing) else { throw error }
            if !isRefused {
                report.fail(error.code.rule, "database", error.exitOfReading, error.sentence)
            }
            return store
        }
    }

    /// Notes the batches that wait. That they cannot be seen is among the findings about rights.
    private mutating func examineBatches(_ facts: BatchFacts) {
        for _ in facts.holds { report.noteWaiting(isHeld: true) }
        // A sender that lives closes its batch at the end of its turn, and any run that of one that is gone.
        for batch in facts.open where batch.state == .filling && batch.inlet != .sender {
            report.note(
                "stored-in-part", "database",
                batch.isUnstored
                    ? batch.unstoredWords
                    : "batch \(batch.id) of \(batch.partition) is stored in part by \(batch.host), since "
                        + "\(batch.opened.rfc3339); "
                        + (batch.isDraft
                            ? "where that import of \(batch.label) is not at work any more the next sweep removes it: "
                                + "import the file again"
                            : "its next run goes on, or after a day the sweep of any host"))
        }
        let waiting = facts.open.filter { $0.state != .held && $0.state != .filling }
        guard let first = waiting.first else { return }
        report.note(
            "waiting-evidence", "database",
            "\(waiting.count.counting("batch")) of reports wait for the next sweep, the first is \(first.id), "
                + "heard \(first.opened.rfc3339) on \(first.host)")
        for _ in waiting { report.noteWaiting(isHeld: false) }
    }

    /// An installation that only sweeps has no queue.
    private mutating func examineQueue(_ store: TokenTable) throws(StoreFailure) {
        let senders = settings.apps.filter(\.sends)
        guard !senders.isEmpty else { return }
        let findings = try store.examineQueue(.send, partitions: senders.map(\.storedPartition))
        enter(findings)
        if findings.refusal == nil {
            facts.unowned = try store.unownedRows(settings.apps.map(\.storedPartition))
        }
        report.grants += (try? store.queueGrants(for: .send)) ?? []
    }

    private mutating func enter(_ findings: [Finding]) {
        for finding in findings {
            if let grant = finding.grant {
                if !report.lacking.contains(grant) { report.lacking.append(grant) }
                report.named.insert(finding.failure?.sentence ?? finding.sentence)
            }
            // Without the hint, which names this command.
            if let failure = finding.failure {
                report.fail(
                    finding.rule, "database", failure.exitOfReading, failure.sentence)
            } else {
                report.note(finding.rule, "database", finding.sentence, finding.severity)
            }
        }
    }
}

extension Settings {
    /// The files that the settings name and runs read, with their keys.
    fileprivate var files: [(key: String, path: String)] {
        var files: [(String, String?)] = [("store.tls.ca", store.tls.ca)]
        for app in apps {
            let key = "apps[\(app.partition)]"
            files += [
                ("\(key).certificate.file", app.certificate?.file),
                ("\(key).certificate.key", app.certificate?.key),
                ("\(key).certificate.passphrase-file", app.certificate?.passphraseFile),
                ("\(key).token-key.file", app.tokenKey?.file),
                ("\(key).feedback.ca", app.feedback?.ca), ("\(key).provider.ca", app.provider?.ca),
                ("\(key).binary.ca", app.binary?.ca),
            ]
        }
        return files.compactMap { key, path in path.map { (key, $0) } }
    }
}
