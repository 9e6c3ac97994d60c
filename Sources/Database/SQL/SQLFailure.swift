/// An error of a driver, sorted by what can be done about it.
package struct SQLFailure: Error, Hashable, Sendable {
    /// What can be done about an error.
    package enum Kind: Hashable, Sendable {
        /// The engine gave our transaction up for another's sake: roll back and redo it.
        case conflict
        /// The connection is gone; what was not committed is undone.
        case lost
        /// The server takes no more work for a moment.
        case overloaded
        /// Nothing answered at the address.
        case unreachable
        /// The peer could not prove who it is, or refused to encrypt.
        case untrusted
        /// The server or file takes no changes; perhaps another node does.
        case readOnly
        /// The account lacks a right.
        case permission
        /// The statement does not fit the schema: settings and database disagree.
        case configuration
        /// The row or its content is refused: by a trigger, a foreign key, a check, or because a value does
        /// not fit its column. Other rows may well be taken.
        case refused
        /// Another run has taken the lease: this one must change nothing more.
        case leaseLost
        /// Anything else.
        case other
    }

    /// What can be done about it.
    package let kind: Kind
    /// The engine's number.
    package let code: Int
    /// The engine's words, bounded, one line, without stored values.
    package let message: String

    /// States an error; the message is bounded and put on one line.
    package init(kind: Kind, code: Int, message: String) {
        self.kind = kind
        self.code = code
        let printable = message.unicodeScalars.map { scalar -> Character in
            scalar.value < 0x20 || scalar.value == 0x7F ? " " : Character(scalar)
        }
        self.message = String(printable.prefix(240))
    }

    /// Whether a row with the same key is there already: 1062 of servers, SQLITE_CONSTRAINT.
    package var isDuplicate: Bool { code == 1062 || code == 19 }

    /// Whether a table is missing, or may not be read, which servers tell apart only for those who may
    /// know: 1146 and SQLite's "no such table", 1142, and 1143 for some of its columns.
    var isAbsentOrHidden: Bool {
        [1_142, 1_143, 1_146].contains(code) || code == 1 && message.hasPrefix("no such table")
    }

    /// Whether the connection has to be opened again before anything else works.
    var needsConnection: Bool {
        switch kind {
        case .lost, .unreachable, .overloaded, .readOnly: true
        default: false
        }
    }
}
