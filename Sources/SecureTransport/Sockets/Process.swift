import COpenSSL
import Glibc
import Synchronization

/// A thread for one connection.
///
/// Connections block in poll, so they must not run on Swift's cooperative thread pool, whose few
/// threads must not block.
package final class WorkerThread: Sendable {
    private let handle: Mutex<pthread_t?>

    private final class Body: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) {
            self.run = run
        }
    }

    /// Starts `body` on a new thread. Throws `io` when the system has no free thread
    /// (pthread_create(3)).
    package init(_ body: @escaping @Sendable () -> Void) throws(TransportFailure) {
        let box = Unmanaged.passRetained(Body(body))
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { argument in
                if let argument {
                    Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run()
                }
                return nil
            }, box.toOpaque())
        guard result == 0 else {
            box.release()
            throw .system("starting a thread for a connection", result)
        }
        handle = Mutex(thread)
    }

    deinit {
        if let thread = handle.withLock({ $0 }) {
            pthread_detach(thread)
        }
    }

    /// Waits until the body has returned. A second call returns at once.
    package func join() {
        let thread = handle.withLock { handle in
            let taken = handle
            handle = nil
            return taken
        }
        if let thread {
            pthread_join(thread, nil)
        }
    }
}

/// A file in memory with these bytes, to be read from its beginning; nil when the system has no
/// descriptor or memory left. The caller closes it. Other programs get it only as one of their
/// standard streams. A reader that stops early, or never reads, disturbs nobody.
///
/// Source: memfd_create(2).
package func memoryFile(_ bytes: [UInt8]) -> Int32? {
    let descriptor = pushsweep_memory_file()
    guard descriptor >= 0 else { return nil }
    var rest = bytes[...]
    while !rest.isEmpty {
        let written = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        if written < 0 && errno == EINTR { continue }
        guard written > 0 else {
            close(descriptor)
            return nil
        }
        rest = rest.dropFirst(written)
    }
    lseek(descriptor, 0, SEEK_SET)
    return descriptor
}

/// Lets a program that is started with these actions inherit its three standard streams only, and
/// none of the files that the caller of this process left open.
///
/// Source: posix_spawn_file_actions_addclosefrom_np(3).
package func closeOtherFiles(_ actions: inout posix_spawn_file_actions_t) {
    _ = pushsweep_close_others(&actions)
}

private let ignored: Void = {
    signal(SIGPIPE, SIG_IGN)
}()

/// Makes a write to a closed connection return an error instead of ending the process.
///
/// OpenSSL writes with write(2), which has no MSG_NOSIGNAL, so SIGPIPE is ignored for the whole
/// process (signal(7)). Both TLS contexts call this; further calls change nothing.
package func ignoreBrokenPipes() {
    _ = ignored
}

// The memory of a run has private keys, the database password and whole tokens. A core file would
// have them too, and would stay readable after the run. Two measures are needed. A limit of zero
// bytes prevents a core file, but the kernel still passes the image to a program such as
// systemd-coredump. A process that is not dumpable is passed to no program, and other processes of
// the user cannot attach to it or read its environment, which may have the password.

/// Prevents core dumps of this process, into files and into other programs. Failures are ignored,
/// because the run is possible without this protection.
///
/// Source: core(5), prctl(2) PR_SET_DUMPABLE.
package func forbidCoreDumps() {
    var limit = rlimit(rlim_cur: 0, rlim_max: 0)
    _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
    _ = pushsweep_forbid_dumps()
}
