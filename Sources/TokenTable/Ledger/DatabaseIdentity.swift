// A state folder has lists that a gateway has forgotten, and they are about the rows of one database. So the first run
// that takes the lease gives the database an identity, a random UUID, and the folder keeps it, too. In the database it
// stands with the counter of changes, which a purge keeps (see `ChangeOrder`). It is a bound value that a run makes, so no
// two databases made by the same statements share it. A copy of a database has that of the original, until somebody
// takes it away there.

import Database
import Findings

extension TokenTable {
    /// Whether the account may read the identity of the database.
    ///
    /// - Throws: any failure of the database.
    package func seesIdentity() throws(StoreFailure) -> Bool {
        try session.canRead(PushsweepTable.commit.name, "number, run")
    }

    /// The identity of the database; nil where no run has given it one, or the account may not read it.
    ///
    /// - Throws: any failure of the database.
    package func identity() throws(StoreFailure) -> String? {
        guard try seesIdentity() else { return nil }
        return try retries.retrying(
            "reading the identity of the database",
            do: ChangeOrder(connection: connection).identity())
    }

    /// The identity of the database, which is `new` where it has none. Call it under the lease.
    ///
    /// - Throws: any failure of the database.
    package func identity(orElse new: String) throws(StoreFailure) -> String {
        try retries.retrying("giving the database an identity") { () throws(SQLFailure) in
            try ChangeOrder(connection: connection).identity(orElse: new)
        }
    }
}
