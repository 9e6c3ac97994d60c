/// The entries of the ledger with the run of each and the name of its batch, or the run again for an undo: what
/// stands behind FROM.
package let ledgerWithRuns =
    "(SELECT p.run, COALESCE(b.name, p.run) AS batch, c.* FROM pushsweep_change AS c JOIN pushsweep_part AS p "
    + "ON p.number = c.part LEFT JOIN pushsweep_batch AS b ON b.number = p.batch) AS ledger"

/// The number of a batch by its name.
package func batchNumber(_ name: String) -> String {
    "(SELECT number FROM pushsweep_batch WHERE name = '\(name)')"
}

/// That an entry of the ledger is of a run.
package func isOfRun(_ run: String) -> String {
    "part IN (SELECT number FROM pushsweep_part WHERE run = '\(run)')"
}
