// A state folder has lists that a gateway has forgotten, and they are about the rows of one database. So the first run
// that takes the lease gives the database an identity, a random UUID in a row of `pushsweep_lease`, and the folder keeps
// it, too. It is a bound value that a run makes, so no two databases made by the same statements share it. A copy of a
// database has that of the original, until somebody deletes the row there.

import Encodings
import Findings

extension DatabaseSession {
    /// The name of the row. Other rows have names of tables.
    package static let identityName = "database id"

    /// The identity of the database; nil where no run has given it one, or the account may not read it.
    ///
    /// - Throws: any failure of the database.
    package func identity() throws(StoreFailure) -> String? {
        guard try canRead("pushsweep_lease", "owner") else { return nil }
        return try retries.retrying(
            "reading the identity of the database", do: storedIdentity())
    }

    /// The identity of the database, which is `new` where it has none. Call it under the lease.
    ///
    /// - Throws: any failure of the database.
    package func identity(orElse new: String) throws(StoreFailure) -> String {
        try retries.retrying("giving the database an identity") { () throws(SQLFailure) in
            if let known = try storedIdentity() { return known }
            do throws(SQLFailure) {
                _ = try connection.execute(
                    "INSERT INTO pushsweep_lease (name, owner, fence) VALUES (?, ?, 0)",
                    [.text(Self.identityName), .text(new)])
            } catch {
                guard error.isDuplicate else { throw error }
            }
            // Another run may have been faster, under the lease of another table.
            guard let made = try storedIdentity() else {
                throw SQLFailure(
                    kind: .conflict, code: 0, message: "the identity of the database is not there")
            }
            return made
        }
    }

    private func storedIdentity() throws(SQLFailure) -> String? {
        try connection.query(
            "SELECT owner FROM pushsweep_lease WHERE name = ?", [.text(Self.identityName)]
        ).scalar?.text
    }
}
