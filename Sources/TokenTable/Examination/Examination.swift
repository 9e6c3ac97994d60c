import Database
import Findings
import TokenHygiene

/// The result of examining the database before its use.
package struct StoreReport: Hashable, Sendable {
    /// The server's description of itself.
    package internal(set) var server: ServerDescription
    /// The findings, in the order of the examination.
    package var findings: [Finding] = []
    /// The token spellings in the sampled rows; nil where no row could be read.
    package internal(set) var sample: TokenSample?
    /// Whether the table fits the settings, so that its rows could be looked at.
    package internal(set) var hasLayout = false

    /// The first finding that forbids applying evidence.
    package var firstFailure: StoreFailure? {
        findings.lazy.compactMap(\.failure).first
    }

    /// The same with all others beside it, and all rights that are missing in one failure; without findings
    /// about values in rows where they are not judged.
    func failure(judgingRows: Bool) -> StoreFailure? {
        let failures = findings.filter { $0.failure != nil && (judgingRows || !$0.isAboutRows) }
        let lacking = failures.filter { $0.grant != nil }
        guard let first = failures.first?.failure, lacking.count > 1, lacking[0].failure == first
        else { return failures.refusal }
        let rest = failures.filter { $0.grant == nil }.compactMap(\.failure)
        return StoreFailure(
            .permission,
            "checking the rights of the account: it lacks \(lacking.count); run "
                + lacking.compactMap(\.grant).joined(separator: "; ")
        ).with(rest)
    }
}

// Reading a list empties it, so the database must be known to accept the changes before the first
// byte of a batch is read. All conditions that can be checked beforehand are checked here, with
// statements that change nothing.

extension TokenTable {
    /// Examines the database for a use and throws the first finding that forbids it. `partitions`
    /// are those whose rows the run will look up. Reads at most a sample of rows, so the cost does
    /// not depend on the table's size. `judgingRows` false is for commands that only show what is in the
    /// table: values in rows do not stop them, nor undo and purge, which look no token up.
    ///
    /// - Throws: `permission`, `configuration` or `readOnly` as found; any failure of a query.
    @discardableResult
    package func require(
        _ need: TableUse, partitions: [Partition] = [], judgingRows: Bool = true
    ) throws(StoreFailure) -> StoreReport {
        let report = try examine(need, partitions: partitions, searchesRows: false)
        if let failure = report.failure(judgingRows: judgingRows && need.findsTokens) {
            throw failure
        }
        if case .undo(let actions, _) = need, actions.contains("mark") {
            try ensureWordsOfMarks()
        }
        return report
    }

    /// Refuses to take marks back under exchanged words: each row would seem to be changed by another program.
    private func ensureWordsOfMarks() throws(StoreFailure) {
        let layout = try layout()
        guard let living = layout.living,
            let failure = try exchangedMarks(layout, living, [])?.failure
        else { return }
        throw failure
    }

    /// Examines the database for a use and reports all findings. `partitions` are those whose rows
    /// the run will look up, with apps by the table's value. `cure` is what helps a column whose values are
    /// no tokens in the declared encoding.
    ///
    /// - Throws: only if the database cannot be queried.
    package func examine(
        _ need: TableUse, partitions: [Partition] = [], searchesRows: Bool = true,
        cure: SampleCure? = nil
    ) throws(StoreFailure) -> StoreReport {
        let server = try session.describe()
        var report = StoreReport(server: server)
        report.findings += findings(on: server)
        let layout: TableLayout
        do {
            layout = try self.layout()
            let table = try catalogTable()
            report.findings +=
                LayoutExamination(
                    layout: layout, table: table, mapping: settings.mapping, need: need
                ).findings
            report.findings += try reachFindings(layout, table, need, partitions)
        } catch {
            guard error.code == .configuration || error.code == .permission else { throw error }
            report.findings.append(Finding(error))
            return report
        }
        report.hasLayout = true
        report.findings += partitionFindings(layout, partitions)
        let own = need.requiredTables(hasMarkColumn: layout.mark != nil)
        report.findings += try missingTables(own)
        if need == .read { report.findings += try earlierTables() }
        if need.writes { report.findings += try ownTriggerFindings(own) }
        if !report.findings.contains(where: { $0.failure?.code == .configuration }) {
            report.findings += try rightsFindings(layout, need, server.account)
        }
        if report.firstFailure == nil { try sample(layout, cure, into: &report) }
        // With a platform the sample has rows of it alone.
        if report.firstFailure == nil, report.sample?.total == 0 {
            report.findings += try platformFindings(layout)
        }
        if searchesRows, report.firstFailure == nil, let sample = report.sample, sample.total > 0 {
            report.findings += try absentValues(layout, partitions)
        }
        if searchesRows && report.firstFailure == nil {
            report.findings += try refusalFindings(layout)
            if let future = try futureMarks(layout) { report.findings.append(future) }
            report.findings += try registrationFindings(layout, report.sample)
        }
        return report
    }

    /// The exact GRANT statements that an account (`name` or `name@host`) needs for a policy,
    /// without closing semicolons. Without `user` they are for the account of this connection, as
    /// the server names it. Empty for SQLite, where the file's mode decides.
    ///
    /// - Throws: `configuration` if the table does not fit the settings.
    package func grants(
        for policy: RemovalPolicy, user: String? = nil
    ) throws(StoreFailure) -> [String] {
        guard case .server(let server) = settings.location else { return [] }
        let description = try session.describe()
        let plan = RequiredPrivileges(
            .apply(policy), try layout(), connection.dialect, database: server.database,
            readsTokenMarks: true, showsTriggers: description.showsTriggers)
        return plan.grants(to: user ?? description.account ?? server.user)
    }

    /// Bytes of the longest statement, with its values, that a usual run makes: 1 MiB.
    private static let leastStatement = 1 << 20

    private func findings(on server: ServerDescription) -> [Finding] {
        var findings = [
            Finding.ok(
                "\(server.version) at \(settings.location), "
                    + (server.encryption ?? "without TLS"))
        ]
        guard connection.dialect.engine == .mariaDB else { return findings }
        if connection.mostBytes < Self.leastStatement {
            findings.append(
                .warning(
                    "small-packets",
                    "the server takes statements of \(connection.mostBytes) bytes at most "
                        + "(max_allowed_packet), so rows may refuse to be removed, and an undo or a large batch "
                        + "may be refused; set max_allowed_packet to \(Self.leastStatement) or more, and "
                        + "start the program anew"))
        }
        if server.timeZone != "+00:00" {
            findings.append(
                .failure(
                    .configuration,
                    "the session's time zone is \(server.timeZone) although +00:00 was asked for; "
                        + "look for a proxy that rewrites SET statements"))
        }
        if !server.isSupported {
            findings.append(
                .warning(
                    "old-server",
                    "\(server.version) is older than what this program is tested with (MariaDB 10.6, "
                        + "MySQL 8.0)"))
        }
        return findings
    }

    private func rightsFindings(
        _ layout: TableLayout, _ need: TableUse, _ account: String?
    ) throws(StoreFailure) -> [Finding] {
        guard case .server(let server) = settings.location else {
            return try fileFindings(need)
        }
        let plan = RequiredPrivileges(
            need, layout, connection.dialect, database: server.database,
            readsTokenMarks: layout.mark == nil ? try canReadTokenMarks() : false)
        return try rightsFindings(plan, account ?? server.user)
    }

    /// Findings about the rights of a plan, each tried by its statement.
    package func rightsFindings(
        _ plan: RequiredPrivileges, _ account: String
    ) throws(StoreFailure) -> [Finding] {
        var findings: [Finding] = []
        var isReadOnly = false
        for right in plan.rights where !right.probe.isEmpty {
            let doing = "checking the right to \(right.purpose) \(right.table)"
            do {
                try retries.retrying(doing) { () throws(SQLFailure) in
                    if right.probe.hasPrefix("SELECT") {
                        _ = try connection.query(right.probe)
                    } else {
                        _ = try connection.execute(right.probe, [])
                    }
                }
            } catch {
                guard error.code == .permission else {
                    guard error.code == .readOnly || error.code == .configuration else {
                        throw error
                    }
                    // A server that is set to read-only refuses each of them for the same reason.
                    if !(isReadOnly && error.code == .readOnly) {
                        findings.append(Finding(error))
                    }
                    if error.code == .readOnly { isReadOnly = true }
                    continue
                }
                let grant = right.grant(to: account)
                findings.append(
                    .failure(
                        .permission, "\(doing): the account lacks this right; run \(grant)",
                        grant: grant))
            }
        }
        if findings.isEmpty {
            findings.append(.ok("account \(account) has the rights it needs"))
        }
        return findings
    }

    private func fileFindings(_ need: TableUse) throws(StoreFailure) -> [Finding] {
        guard need.writes else { return [] }
        do {
            try retries.retrying("checking that \(settings.location) can be written") {
                () throws(SQLFailure) in
                try connection.begin()
                connection.rollBack()
            }
            return []
        } catch {
            guard error.code == .readOnly || error.code == .permission else { throw error }
            return [Finding(error)]
        }
    }
}

extension ServerDescription {
    /// Whether the server shows the triggers of a table to all who may change it, without the right
    /// TRIGGER.
    package var showsTriggers: Bool { version.hasPrefix("MariaDB") }

    /// Whether the version is one that the conformance tests use, or later.
    fileprivate var isSupported: Bool {
        let numbers = version.split(separator: " ").last?.split(separator: ".").prefix(2)
            .compactMap { Int($0) }
        guard let numbers, numbers.count == 2 else { return false }
        return (numbers[0], numbers[1]) >= (version.hasPrefix("MariaDB") ? (10, 6) : (8, 0))
    }
}
