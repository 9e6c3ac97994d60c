import GRDB

/// Why the local state cannot be used or kept.
package struct JournalFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// What kind of trouble it is, so that the exit code can follow from it.
    package enum Code: Hashable, Sendable {
        /// Another run on this host holds the lock.
        case locked
        /// The folder or a file in it cannot be created, or the disk has too little room.
        case cannotCreate
        /// Others can read the folder, or we may not.
        case permission
        /// Reading or writing failed; what is durable is unknown, so nothing is assumed.
        case inputOutput
        /// The file is damaged and was set aside under a new name, or is another program's and was
        /// left alone.
        case damaged
        /// The journal has no feed of this name, or no longer has its bytes.
        case unknownFeed
    }

    /// The kind of trouble.
    package let code: Code
    /// One sentence: what was being done, to what, what happened, what to do next.
    package let description: String

    /// States a failure.
    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Words an error of SQLite for the journal. Bound values never appear in it.
    static func wrapping(_ error: any Error, while doing: String) -> JournalFailure {
        if let failure = error as? JournalFailure { return failure }
        guard let error = error as? DatabaseError else {
            return JournalFailure(.inputOutput, "\(doing): \(error)")
        }
        let cause = "\(error.message ?? "no message") (SQLite \(error.extendedResultCode.rawValue))"
        let code: Code
        let advice: String
        switch error.resultCode {
        case .SQLITE_FULL:
            (code, advice) = (.inputOutput, "free disk space and run again")
        case .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH:
            (code, advice) = (.cannotCreate, "check owner, mode and mount of the state folder")
        default:
            (code, advice) = (.inputOutput, "check the disk, then run again")
        }
        return JournalFailure(code, "\(doing): \(cause); \(advice)")
    }
}
