import GRDB

/// The reason why the local state cannot be used or stored.
package struct JournalFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure. The exit code follows from it.
    package enum Code: Hashable, Sendable {
        /// Another run on this host holds the lock.
        case locked
        /// The folder or a file in it cannot be created, or the disk has too little free space.
        case cannotCreate
        /// Other users can read the folder, or this user may not.
        case permission
        /// Reading or writing failed. Which bytes are durable is unknown, so none are assumed to be.
        case inputOutput
        /// The file is damaged and was set aside under a new name, or it belongs to another program
        /// and was left alone.
        case damaged
        /// The journal has no feed of this name, or its bytes were deleted.
        case unknownFeed
    }

    /// The kind of failure.
    package let code: Code
    /// One sentence: the action, its object, the error, and what to do next.
    package let description: String

    /// Makes a failure from its kind and its sentence.
    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Turns an error of SQLite into a failure of the journal. Bound values never appear in it.
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
