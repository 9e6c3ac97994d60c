import APNsProtocol
import Database
import Findings
import TokenHygiene

extension TokenTable {
    /// When persons said no; see `PersonsRefusals`.
    ///
    /// - Throws: any failure of a query. Unless the account `mustSee` them there are none where it may not.
    package func refusalTimes(mustSee: Bool) throws(StoreFailure) -> [EpochMilliseconds] {
        if !mustSee { guard try seesRefusals() else { return [] } }
        return try retries.retrying(
            "looking for undos and discards",
            do: PersonsRefusals(connection: connection).times())
    }

    /// Whether the account sees all that tells when persons said no.
    private func seesRefusals() throws(StoreFailure) -> Bool {
        guard try session.canRead(PushsweepTable.run.name, "kind, counts") else { return false }
        return try Batches(self).visibility() == .readable
    }
}
