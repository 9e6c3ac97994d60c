// Everything that can be known before a feed is spent on it: settings and where they come from,
// certificates, the state folder, the database. `check` never connects to a feedback gateway, since
// looking there would clear the list.

import EvidenceJournal
import Glibc
import SecureTransport
import TokenHygiene
import TokenStore

/// Examines everything a sweep needs and changes nothing.
package struct Check {
    private let settings: Settings
    private let context: RunContext
    private var report = CheckReport()

    private init(_ settings: Settings, _ context: RunContext) {
        self.settings = settings
        self.context = context
    }

    /// Examines the settings and all they name.
    package static func run(_ settings: Settings, _ context: RunContext) -> CheckReport {
        var check = Check(settings, context)
        check.examineSettings()
        check.examineState()
        for app in settings.apps { check.examineCertificate(app) }
        check.examineStore()
        return check.report
    }

    private mutating func examineSettings() {
        report.settings = settings.origins.map {
            CheckReport.Setting(
                key: $0.key, value: $0.shownValue, origin: $0.origin.description)
        }
        report.note("settings", .ok, settings.file.map { "read from \($0)" } ?? "no file is used")
        if settings.apps.isEmpty {
            report.note("settings", .warning, "no app is named, so a sweep has nothing to read")
        }
        for setting in settings.origins where setting.origin != .builtIn {
            guard let rule = SettingsTable.rule(setting.key), !rule.isInForce else { continue }
            report.note(
                "settings", .warning, "\(setting.key) is set, but nothing uses it in this version")
        }
        for app in settings.apps where app.feedback == nil {
            report.note(
                "settings", .ok, "\(app.partition) has no feedback gateway and is not swept")
        }
    }

    /// Looks at a state folder that is there and ours; a check makes none, lest it belong to the
    /// wrong user.
    private mutating func examineState() {
        var facts = stat()
        guard stat(settings.state, &facts) == 0 else {
            report.note(
                "state", .ok, "\(settings.state) is not there yet; the first run makes it")
            return
        }
        guard facts.st_uid == geteuid() else {
            report.note(
                "state", .warning,
                "\(settings.state) belongs to another user (number \(facts.st_uid)); run check as "
                    + "the user who sweeps")
            return
        }
        guard access(settings.state + "/journal.sqlite", F_OK) == 0 else {
            report.note("state", .ok, "\(settings.state) holds no journal yet")
            return
        }
        do {
            let folder = try StateFolder(settings.state)
            try folder.ensureRoom()
            let journal = try EvidenceJournal(in: folder)
            for file in try folder.damagedFiles {
                report.note("state", .warning, folder.damage(file))
            }
            report.note("state", .ok, "\(settings.state) is private and writable")
            for feed in try journal.feeds(.reading, .pending, .held) {
                report.note(
                    "state", .warning,
                    "feed \(feed.id) of \(feed.partition), \(feed.bytes) bytes, is "
                        + "\(feed.state.rawValue)" + (feed.cause.map { ": \($0)" } ?? "")
                        + (feed.state == .held
                            ? "; apply it with: pushsweep replay --feed \(feed.id)"
                            : "; the next sweep applies it"))
            }
            let doubtful = try journal.quarantinedFeeds()
            if !doubtful.isEmpty {
                report.note(
                    "state", .warning,
                    "\(doubtful.count) feeds hold quarantined bytes; see: pushsweep quarantine list"
                )
            }
        } catch  where error.code == .locked {
            report.note("state", .warning, "\(error)")
        } catch {
            report.fail("state", .wrapping(error, at: .state))
        }
    }

    private mutating func examineCertificate(_ app: Settings.App) {
        guard let certificate = app.certificate else {
            if app.feedback != nil {
                report.note(
                    "certificate", .warning,
                    "\(app.partition) has a feedback gateway and no client certificate")
            }
            return
        }
        do {
            let identity = try TLSIdentity.load(
                file: certificate.file, key: certificate.key,
                passphraseFile: certificate.passphraseFile)
            let ends = EpochMilliseconds(identity.notAfter * 1000)
            report.certificates.append(
                CheckReport.Certificate(
                    app: app.name, environment: app.environment.rawValue, file: certificate.file,
                    subject: identity.subject, issuer: identity.issuer, expires: ends.rfc3339,
                    fingerprint: identity.fingerprint))
            try identity.checkValidity(at: context.now().rawValue / 1000)
            if ends < context.now().advanced(by: PlannedGateway.expiryWarning) {
                report.note(
                    "certificate", .warning,
                    "the certificate for \(app.partition) ends at \(ends.rfc3339); renew it")
            } else {
                report.note("certificate", .ok, "\(app.partition) is valid to \(ends.rfc3339)")
            }
            if let feedback = app.feedback {
                _ = try TLSClientContext(
                    trust: feedback.ca.map { .file($0) } ?? .system, identity: identity)
            }
        } catch {
            report.fail("certificate", .wrapping(error, at: .identity))
        }
    }

    private mutating func examineStore() {
        do {
            let wanted = StoreSettings(settings)
            let policy = RemovalPolicy(settings.policy)
            let store = try TokenStore(wanted)
            for finding in try store.examine(
                .apply(policy), partitions: settings.apps.map(\.storedPartition)
            ).findings {
                enter(finding)
            }
            report.grants = (try? store.grants(for: policy)) ?? []
        } catch {
            report.fail("database", .wrapping(error, at: .store))
        }
    }

    private mutating func enter(_ finding: StoreFinding) {
        switch finding.severity {
        case .ok: report.note("database", .ok, finding.sentence)
        case .warning: report.note("database", .warning, finding.sentence)
        case .refusedByCheck: report.fail("database", .configuration, finding.sentence)
        case .failure(let code):
            report.fail(
                "database", StoreFailure(code, finding.sentence).exit, finding.sentence)
        }
    }
}
