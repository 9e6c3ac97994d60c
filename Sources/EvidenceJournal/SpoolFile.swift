import FoundationEssentials
import Encodings
import Glibc

/// A private file in the state folder with the bytes of a pipe, which cannot be read a second time. It
/// is removed with this object unless it is kept; after a killed process it stays. It is made without the
/// lock of the folder.
package final class SpoolFile {
    private let folder: PrivateFolder
    // Another container on the same volume may have a process of the same number.
    private let name = StateFolder.spoolPrefix + UUID().uuidString.lowercased()
    private var isKept = false
    /// The open file.
    package let descriptor: Int32
    /// Number of bytes so far.
    package private(set) var count = 0

    package var path: String { folder.path + "/" + name }

    /// Makes an empty file; makes the state folder where there is none.
    ///
    /// - Throws: `permission` and `cannotCreate`, as taking the folder does.
    package init(in state: String) throws(JournalFailure) {
        folder = try StateFolder.made(state)
        try folder.ensureRoom()
        descriptor = try folder.open(name, O_RDWR | O_CREAT | O_EXCL)
        // Other runs see by the lock that the file is in use.
        flock(descriptor, LOCK_EX)
    }

    deinit {
        if !isKept { unlinkat(folder.descriptor, name, 0) }
        close(descriptor)
    }

    /// Adds bytes.
    ///
    /// - Throws: `cannotCreate` where the disk would have less than 64 MiB free; `inputOutput`.
    package func append(_ bytes: UnsafeRawBufferPointer) throws(JournalFailure) {
        try folder.ensureRoom(for: bytes.count)
        guard writeWhole(bytes, to: descriptor) else { throw failure }
        count += bytes.count
    }

    /// Makes the bytes durable, and goes back to the first.
    ///
    /// - Throws: `inputOutput`.
    package func rewind() throws(JournalFailure) {
        guard fsync(descriptor) == 0, lseek(descriptor, 0, SEEK_SET) == 0 else { throw failure }
        try folder.sync()
    }

    /// Lets the file stay.
    ///
    /// - Throws: `inputOutput` where the bytes may not be durable.
    package func keep() throws(JournalFailure) {
        isKept = true
        try rewind()
    }

    private var failure: JournalFailure {
        JournalFailure(.inputOutput, "keeping bytes in \(path)", errno)
    }
}

extension StateFolder {
    /// The beginning of the names of files with the bytes of a pipe.
    static let spoolPrefix = "pipe-"

    /// The files with bytes of pipes that no run has taken, oldest first. One in use is not among them.
    package var keptSpools: [String] {
        get throws(JournalFailure) {
            try folder.entries.filter { name in
                guard name.hasPrefix(Self.spoolPrefix), let file = try? folder.open(name, O_RDONLY)
                else { return false }
                defer { close(file) }
                var facts = stat()
                return fstat(file, &facts) == 0 && facts.st_size > 0
                    && flock(file, LOCK_SH | LOCK_NB) == 0
            }
        }
    }

    /// Removes the file of a path that was kept here, after its bytes were taken. Any other path is left
    /// alone.
    package func removeSpool(_ path: String) {
        let name = path.lastName
        guard name.hasPrefix(Self.spoolPrefix), ParentFolders.resolved(path) == realFile(name)
        else { return }
        unlinkat(folder.descriptor, name, 0)
    }
}
