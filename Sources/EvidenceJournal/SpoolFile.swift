import Glibc

/// A private file in the state folder that has no name, so that it is gone with the process. It is made
/// without the lock of the folder.
package final class SpoolFile {
    private let folder: PrivateFolder
    /// The open file.
    package let descriptor: Int32
    /// Number of bytes so far.
    package private(set) var count = 0

    /// Makes an empty file; makes the state folder where there is none.
    ///
    /// - Throws: `permission` and `cannotCreate`, as taking the folder does.
    package init(in state: String) throws(JournalFailure) {
        folder = try StateFolder.made(state)
        try folder.ensureRoom()
        // Not every file system can make a file without a name, so its name is taken away at once.
        let name = StateFolder.spoolPrefix + "\(getpid())"
        descriptor = try folder.open(name, O_RDWR | O_CREAT)
        unlinkat(folder.descriptor, name, 0)
    }

    deinit { close(descriptor) }

    /// Adds bytes.
    ///
    /// - Throws: `cannotCreate` where the disk would have less than 64 MiB free; `inputOutput`.
    package func append(_ bytes: UnsafeRawBufferPointer) throws(JournalFailure) {
        try folder.ensureRoom(for: bytes.count)
        var rest = bytes[...]
        while !rest.isEmpty {
            let part = UnsafeRawBufferPointer(rebasing: rest)
            let written = write(descriptor, part.baseAddress, part.count)
            guard written > 0 || errno == EINTR else {
                throw JournalFailure(
                    .inputOutput,
                    "keeping bytes in \(folder.path): \(String(cString: strerror(errno))); check the disk"
                )
            }
            rest = rest.dropFirst(max(0, written))
        }
        count += bytes.count
    }

    /// Goes back to the first byte.
    ///
    /// - Throws: `inputOutput`.
    package func rewind() throws(JournalFailure) {
        guard lseek(descriptor, 0, SEEK_SET) == 0 else {
            throw JournalFailure(
                .inputOutput,
                "reading back from \(folder.path): \(String(cString: strerror(errno))); check the disk"
            )
        }
    }
}
