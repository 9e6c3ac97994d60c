import Database
import FoundationEssentials
import Glibc

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
        /// There is no list of this name, or its bytes were deleted.
        case unknownList
        /// A list is damaged and was set aside; the others go on.
        case undecodable
        /// A file has the form of another build and was left alone.
        case otherBuild
    }

    package let code: Code
    /// One sentence: the action, its object, the error, and what to do next.
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// A failure of a system call, by its errno; the clause `cure` says what to do.
    init(
        _ code: Code, _ doing: String, _ cause: Int32, _ cure: String? = "check the disk"
    ) {
        let reason = String(cString: strerror(cause))
        self.init(code, "\(doing): \(reason)" + (cure.map { "; \($0)" } ?? ""))
    }

    /// SQLITE_FULL.
    private static let diskIsFull = 13

    /// Turns an error of SQLite into a failure of the journal. Bound values never appear in it.
    static func wrapping(_ error: any Error, while doing: String) -> JournalFailure {
        if let failure = error as? JournalFailure { return failure }
        guard let error = error as? SQLFailure else {
            return JournalFailure(.inputOutput, "\(doing): \(error)")
        }
        let cause = "\(error.message) (SQLite \(error.exactCode))"
        let code: Code
        let advice: String
        switch error.kind {
        case _ where error.code == Self.diskIsFull:
            (code, advice) = (.inputOutput, "free disk space and run again")
        case .permission, .readOnly:
            (code, advice) = (.cannotCreate, "check owner, mode and mount of the state folder")
        default:
            (code, advice) = (.inputOutput, "check the disk, then run again")
        }
        return JournalFailure(code, "\(doing): \(cause); \(advice)")
    }
}

extension StateFolder {
    static let journalName = "journal.sqlite"
    private static let damaged = ".damaged-"

    /// Names of files set aside as damaged, which may hold lists that were not applied. Runs warn about them until a
    /// person moves them away.
    package var damagedFiles: [String] {
        get throws(JournalFailure) {
            try folder.entries.filter { name in
                [Self.journalName, Self.listPrefix, Self.appliedPrefix].contains(
                    where: name.hasPrefix)
                    && name.contains(Self.damaged) && !name.hasSuffix("-journal")
            }
        }
    }

    /// Reads a file from start to end, to find out whether the disk can still read it.
    ///
    /// - Throws: `inputOutput`.
    func ensureReadable(_ name: String) throws(JournalFailure) {
        let descriptor = try folder.open(name, O_RDONLY)
        defer { close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        var place = 0
        var count = 1
        // As SQLite reads, so that what fails for one fails for the other.
        while count > 0 {
            count = buffer.withUnsafeMutableBytes {
                pread(descriptor, $0.baseAddress, $0.count, place)
            }
            place += max(count, 0)
        }
        guard count == 0 else {
            throw JournalFailure(
                .inputOutput, "reading \(file(name))", errno, "check the disk, then run again")
        }
    }

    /// Renames a journal that cannot be read, so that the next run can start a new one. In a visited
    /// folder the journal is not renamed, because its owner may be alive and using it. Returns the
    /// failure to throw.
    func failure(ofDamage cause: String) -> JournalFailure {
        let journal = file(Self.journalName)
        guard !isVisited else {
            return JournalFailure(
                .inputOutput,
                "the journal \(journal) of another run cannot be read (\(cause)); the next run that "
                    + "takes its folder sets it aside")
        }
        guard let kept = setAside(Self.journalName) else {
            return JournalFailure(
                .inputOutput,
                "the journal \(journal) cannot be read (\(cause)) and could not be set aside "
                    + "(\(String(cString: strerror(errno)))); move it to a safe place, then run again"
            )
        }
        return JournalFailure(
            .damaged,
            "the journal \(journal) cannot be read (\(cause)); it was set aside as \(file(kept)): run again to "
                + "start a new one")
    }

    /// Gives a damaged file a name that no earlier one has, which `rename` would replace. Returns it; nil with errno
    /// where that failed.
    func setAside(_ name: String) -> String? {
        let kept =
            name + Self.damaged + "\(Int(Date().timeIntervalSince1970))-"
            + UUID().uuidString.prefix(8).lowercased()
        // A rollback journal is renamed first. Without its database it is useless, but SQLite would apply it to the next
        // database of the same name.
        let hasRollback = folder.has(name + "-journal")
        if hasRollback, !rename(name + "-journal", kept + "-journal") { return nil }
        if rename(name, kept) { return kept }
        let cause = errno
        if hasRollback { _ = rename(kept + "-journal", name + "-journal") }
        errno = cause
        return nil
    }

    private func rename(_ name: String, _ other: String) -> Bool {
        renameat(folder.descriptor, name, folder.descriptor, other) == 0
    }
}
