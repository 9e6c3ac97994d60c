// The code that plans the statements determines the rights they need. The proof of a right is the
// same for all: a statement that needs exactly this right and changes nothing.

/// One grant, and the statement that proves it.
package struct Privilege: Hashable, Sendable {
    /// The purpose, as the middle of a sentence.
    package let purpose: String
    /// The privileges in SQL, such as `SELECT (a, b), UPDATE (c)`.
    package let privileges: String
    /// The table in SQL, with its schema.
    package let table: String
    /// A statement that fails without the right and changes nothing with it; empty where no
    /// statement can prove the right.
    package let probe: String

    /// Makes a right with the statement that proves it.
    package init(purpose: String, privileges: String, table: String, probe: String) {
        self.purpose = purpose
        self.privileges = privileges
        self.table = table
        self.probe = probe
    }
}

extension Privilege {
    /// The GRANT statement for this right and the account `name` or `name@host`, as CURRENT_USER()
    /// spells it: the last `@` separates the host, names may contain others. Without closing
    /// semicolon.
    package func grant(to user: String) -> String {
        "GRANT \(privileges) ON \(table) TO \(Self.account(user))"
    }

    /// The account in SQL. Without a host it may come from every host.
    package static func account(_ user: String) -> String {
        let at = user.unicodeScalars.lastIndex(of: "@")
        let name = at.map { String(user.unicodeScalars[..<$0]) } ?? user
        let host = at.map { String(user.unicodeScalars[$0...].dropFirst()) } ?? "%"
        return "\(SQLDialect.accountPart(name))@\(SQLDialect.accountPart(host))"
    }
}
