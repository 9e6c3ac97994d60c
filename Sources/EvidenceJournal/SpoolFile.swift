import Foundation
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
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest)
            let written = write(descriptor, part.baseAddress, part.count)
            guard written > 0 || errno == EINTR else { throw failure("keeping bytes in") }
            rest = rest.dropFirst(max(0, written))
        }
        count += bytes.count
    }

    /// Makes the bytes durable, and goes back to the first.
    ///
    /// - Throws: `inputOutput`.
    package func rewind() throws(JournalFailure) {
        // Some file systems cannot sync a folder and report EINVAL.
        guard fsync(descriptor) == 0, fsync(folder.descriptor) == 0 || errno == EINVAL,
            lseek(descriptor, 0, SEEK_SET) == 0
        else { throw failure("keeping bytes in") }
    }

    /// Lets the file stay.
    ///
    /// - Throws: `inputOutput` where the bytes may not be durable.
    package func keep() throws(JournalFailure) {
        isKept = true
        try rewind()
    }

    private func failure(_ doing: String) -> JournalFailure {
        JournalFailure(.inputOutput, "\(doing) \(path)", errno)
    }
}

extension StateFolder {
    /// The beginning of the names of files with the bytes of a pipe.
    static let spoolPrefix = "pipe-"

    /// The files with bytes of pipes that no run has taken, oldest first. One in use is not among them.
    package var keptSpools: [String] {
        get throws(JournalFailure) {
            try entries.filter { name in
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
        let name = (path as NSString).lastPathComponent
        guard name.hasPrefix(Self.spoolPrefix), ParentFolders.resolved(path) == realFile(name)
        else { return }
        unlinkat(folder.descriptor, name, 0)
    }
}
