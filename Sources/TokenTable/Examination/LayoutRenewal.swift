import Database
import Findings
import TokenHygiene

// A table may change while a run removes rows. The layout that the run began with is then renewed, and the
// table examined again.

extension TokenTable {
    /// Resolves the layout anew and looks again for what refers to the rows. Does nothing where rows are only
    /// marked. A process that removes rows for weeks would otherwise leave columns that were added
    /// meanwhile out of its images, and miss a foreign key that removes other rows.
    ///
    /// - Throws: as `layout`; `configuration` or `permission` where rows must not be removed.
    package func renewLayout(for policy: RemovalPolicy) throws(StoreFailure) {
        guard policy.deletesAtOnce else { return }
        try resolveAnew(for: .apply(policy))
    }

    /// Resolves the layout anew in the middle of a run whose table has other columns now.
    ///
    /// - Throws: as `renewLayout(for:)`; `busy` where the columns are the old ones again.
    func renewLayout(of need: TableUse) throws(StoreFailure) {
        let before = try layout().columnForms
        try resolveAnew(for: need)
        guard try layout().columnForms == before else { return }
        throw StoreFailure(
            .busy,
            "reading the columns of \(settings.mapping.table): they change while rows are removed; what was "
                + "removed is complete in the ledger, run again")
    }

    private func resolveAnew(for need: TableUse) throws(StoreFailure) {
        forgetLayout()
        let (layout, table) = (try layout(), try catalogTable())
        let findings =
            LayoutExamination(
                layout: layout, table: table, mapping: settings.mapping, need: need
            ).findings + (try reachFindings(layout, table, need))
        if let failure = findings.refusal { throw failure }
    }
}
