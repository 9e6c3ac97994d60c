import Database
import Findings
import TokenHygiene

// What taking in the reports of other senders needs, apart from the rest: a sweep whose account lacks
// these rights reads its gateways all the same.

extension RequiredPrivileges {
    /// The rights of an account that takes reports in, or imports a file.
    package static func intake(database: String, _ dialect: SQLDialect) -> RequiredPrivileges {
        let maker = PrivilegeMaker(database, dialect)
        return RequiredPrivileges(rights: [
            maker.sideTable(.evidence, .read), maker.deleting(from: .evidence),
            maker.numbering(.evidence),
            maker.sideTable(.intake, .change),
        ])
    }
}

extension TokenTable {
    /// The rights for the reports of other senders; nil for a file, where its mode decides.
    private var intakePrivileges: RequiredPrivileges? {
        guard case .server(let server) = settings.location else { return nil }
        return .intake(database: server.database, connection.dialect)
    }

    /// The GRANT statements that an account (`name` or `name@host`) needs to take reports, without
    /// closing semicolons; for the account of this connection without `user`. Empty for SQLite.
    ///
    /// - Throws: any failure of a query.
    package func intakeGrants(user: String? = nil) throws(StoreFailure) -> [String] {
        guard let plan = intakePrivileges, case .server(let server) = settings.location else {
            return []
        }
        if let user { return plan.grants(to: user) }
        return plan.grants(to: try session.describe().account ?? server.user)
    }

    /// Requires the rights to take reports, before the first is taken.
    ///
    /// - Throws: `permission` with the GRANT for one that is missing; any failure of a query.
    package func requireIntake() throws(StoreFailure) {
        guard let plan = intakePrivileges else { return }
        let account = try session.describe().account ?? ""
        if let failure = try rightsFindings(plan, account).refusal { throw failure }
    }

    /// Findings about the table of reports, for `check`.
    ///
    /// - Throws: only if the database cannot be queried.
    package func examineIntake() throws(StoreFailure) -> [Finding] {
        let intake = EvidenceIntake(self)
        let visibility = try intake.visibility()
        switch visibility {
        case .absent: return []
        case .hidden:
            let gap = try session.gap(in: .evidence, visibility) ?? ""
            return [
                .failure(
                    .permission, "a sweep decides by it and ends with 77: \(gap)",
                    rule: "intake-not-seen")
            ]
        case .readable: break
        }
        var findings = [
            Finding.ok("reports of other senders that wait: \(try intake.waiting())")
        ]
        if let sentence = try intake.exhaustion() {
            findings.append(.warning("intake-exhausted", sentence))
        }
        if let plan = intakePrivileges {
            let account = try session.describe().account ?? ""
            findings += try rightsFindings(plan, account).filter { $0.severity != .ok }
        }
        return findings
    }
}
