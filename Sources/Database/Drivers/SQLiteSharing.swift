// A writer that waits for a lock of SQLite asks again and again, and sleeps in between. A run that writes chunk after
// chunk would never let it in, so it pauses after each; see `ChunkLoop`. Where nobody else has the file open, the pause
// is a third of the run's time for nothing.
//
// In the mode of the write-ahead log each connection holds a shared lock on one byte of the file beside the database
// while it is open (UNIX_SHM_DMS in os_unix.c of SQLite), and whether another process holds it can be asked without
// taking it. In any other mode a connection leaves no trace, so others may be there.
//
// To close any descriptor of a file drops all locks that the process has on it. So the descriptor by which is asked
// stays open as long as the file beside the database is the same one, also when its connection is closed.

import CSQLite
import Glibc
import Synchronization

/// An open connection to a file of SQLite, as far as others have the file open too.
final class SQLiteSharing {
    /// The file beside a database, as the kernel names it.
    private struct File: Hashable {
        let (device, number): (UInt, UInt)
    }

    /// The byte that each connection has locked.
    private static let lockedByte: off_t = 128

    /// The open connections of this process by the path of their file.
    private static let connections = Mutex<[String: Int]>([:])
    /// The descriptor of the file beside a database, by the path of that database.
    private static let descriptors = Mutex<[String: (file: File, descriptor: Int32)]>([:])

    /// The path of the database without links, beside which SQLite makes its other files.
    private let path: String

    /// Counts a connection as long as the object is there.
    init(_ path: String) {
        let real = realpath(path, nil)
        defer { free(real) }
        let resolved = real.map { String(cString: $0) } ?? path
        self.path = resolved
        Self.connections.withLock { $0[resolved, default: 0] += 1 }
    }

    deinit { Self.connections.withLock { [path] in $0[path, default: 1] -= 1 } }

    /// Whether anybody but one connection of this process has the file open; true where nobody can tell.
    var isShared: Bool {
        if Self.connections.withLock({ [path] in $0[path] ?? 0 }) > 1 { return true }
        guard let descriptor = Self.descriptor(beside: path) else { return true }
        var lock = flock()
        lock.l_type = Int16(F_WRLCK)
        lock.l_whence = Int16(SEEK_SET)
        (lock.l_start, lock.l_len) = (Self.lockedByte, 1)
        guard fcntl(descriptor, F_GETLK, &lock) == 0 else { return true }
        return lock.l_type != Int16(F_UNLCK)
    }

    private static func descriptor(beside path: String) -> Int32? {
        var facts = stat()
        guard stat(path + "-shm", &facts) == 0 else { return nil }
        let file = File(device: UInt(facts.st_dev), number: UInt(facts.st_ino))
        return descriptors.withLock { known in
            if let open = known[path] {
                if open.file == file { return open.descriptor }
                // It was removed with its last connection, so no lock is lost.
                close(open.descriptor)
                known[path] = nil
            }
            let descriptor = open(path + "-shm", O_RDWR | O_CLOEXEC)
            guard descriptor >= 0 else { return nil }
            known[path] = (file, descriptor)
            return descriptor
        }
    }
}
