// The report of a first look: the table alone, by settings that are only proposed. None of Pushsweep's tables is needed,
// so it is what a person can show before anything is made.

import APNsProtocol
import Database
import Findings
import Operations
import Settings
import TokenTable

extension Audit {
    /// Reports on a table under proposed settings. Tokens in several rows are counted where that needs no sorting of a
    /// large table.
    ///
    /// - Throws: failures of the database, and 75 when it was stopped.
    static func firstLook(
        at table: TokenTable, under proposed: Settings, sorting: Bool, questions: Int,
        version: String, _ context: RunContext
    ) throws -> AuditReport {
        let now = try table.session.databaseTime()
        var audit = Audit(
            settings: proposed, wish: AuditWish(), context: context,
            host: HostFacts(in: proposed.state),
            facts: Facts(.audit, state: "", apps: proposed.apps, now: now))
        audit.report.version = version
        let stored = proposed.apps.map(\.storedPartition)
        audit.describe(now, table)
        try audit.countTokens(table, stored, now)
        if sorting { try audit.examineDeeply(table, stored) }
        audit.facts.firstLook = "\(table.settings.mapping.table)"
        (audit.facts.report, audit.facts.gaps) = (audit.report, audit.report.gaps)
        audit.report.enter(RuleBook.findings(audit.facts), hoursSinceSweep: nil)
        audit.report.firstLook = questions
        // Before anything is made there are no marks of ours, which nobody knows who may not look.
        audit.report.gaps += try table.unseenMarks()
        if audit.report.healthy {
            let tokens = audit.report.apps.map(\.tokens)
            audit.report.headline =
                "\(tokens.reduce(0) { $0 + $1.living }.counting("living token")), "
                + "\(tokens.reduce(0) { $0 + $1.stale }) stale, with \(questions.counting("open question"))"
        }
        return audit.report
    }
}
