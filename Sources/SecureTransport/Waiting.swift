import COpenSSL
import Encodings
import Glibc
import Synchronization

/// A deadline on the monotonic clock.
///
/// The wall clock may jump during a run. CLOCK_MONOTONIC does not (clock_gettime(2)), so changes of
/// the host's time do not move a deadline.
package struct Deadline: Sendable, Comparable {
    /// Nanoseconds of CLOCK_MONOTONIC.
    private let instant: Int64

    private init(instant: Int64) { self.instant = instant }

    /// A deadline that has passed: do not wait.
    package static let now = Deadline(instant: .min)

    /// A deadline that never passes: wait without a limit.
    package static let never = Deadline(instant: .max)

    /// The deadline after `duration` from now; `never` for a duration beyond the range of the
    /// clock.
    package static func `in`(_ duration: Duration) -> Deadline {
        let (seconds, attoseconds) = duration.components
        let (scaled, overflowed) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if overflowed { return seconds < 0 ? .now : .never }
        let whole = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
        let due = whole.partialValue.addingReportingOverflow(monotonicNanoseconds())
        return whole.overflow || due.overflow ? .never : Deadline(instant: due.partialValue)
    }

    /// The earlier of two deadlines.
    package static func earlier(of first: Deadline, _ second: Deadline) -> Deadline {
        min(first, second)
    }

    /// Whether the deadline has passed.
    package var hasPassed: Bool { instant != .max && instant <= Self.monotonicNanoseconds() }

    /// The time left: zero when the deadline has passed, a day for `never`.
    package var remaining: Duration {
        instant == .max ? .seconds(86_400) : .milliseconds(Int64(max(0, remainingMilliseconds)))
    }

    /// The timeout for poll(2): milliseconds, rounded up so that the deadline has passed after the
    /// wait; 0 when it has passed, -1 for `never`.
    package var remainingMilliseconds: Int32 {
        if instant == .max { return -1 }
        let now = Self.monotonicNanoseconds()
        if instant <= now { return 0 }
        let milliseconds = (instant - now - 1) / 1_000_000 + 1
        return Int32(clamping: milliseconds)
    }

    /// Whether `left` is the earlier deadline.
    package static func < (left: Deadline, right: Deadline) -> Bool {
        left.instant < right.instant
    }

    private static func monotonicNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// Ends waits from any thread or from a signal handler.
///
/// A wait in poll(2) also watches the interrupt's eventfd(2). The descriptor stays readable once
/// tripped, so one trip ends the waits of all threads, present and future. It cannot be reset.
package final class Interrupt: Sendable {
    /// The descriptor for poll; readable once tripped.
    let descriptor: Int32
    private let tripped = Atomic<Bool>(false)

    /// Makes an interrupt that is not tripped. Throws `io` without free descriptors.
    package init() throws(TransportFailure) {
        descriptor = pushsweep_eventfd()
        guard descriptor >= 0 else { throw .system("making an interrupt", errno) }
    }

    deinit { close(descriptor) }

    /// Whether `trip` was called.
    package var isTripped: Bool { tripped.load(ordering: .acquiring) }

    /// Ends all waits. An atomic store and one write(2), so a signal handler may call it.
    package func trip() {
        tripped.store(true, ordering: .releasing)
        var one: UInt64 = 1
        // EAGAIN means that the counter is full, so the descriptor is readable already.
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Waits until tripped; false when the deadline passed first.
    package func wait(until deadline: Deadline) -> Bool {
        let outcome = Poll.wait(descriptor, for: .reading, deadline: deadline, interrupt: nil)
        return if case .ready = outcome { true } else { false }
    }
}

/// Waits with poll(2) for a descriptor, a deadline and an interrupt.
package enum Poll {
    /// The event to wait for.
    package enum Direction: Sendable {
        /// Bytes of the peer, or the end of its stream.
        case reading
        /// Free space for more bytes.
        case writing
        /// Whichever comes first.
        case either

        var events: Int16 {
            switch self {
            case .reading: Int16(POLLIN)
            case .writing: Int16(POLLOUT)
            case .either: Int16(POLLIN | POLLOUT)
            }
        }
    }

    /// The result of a wait.
    package enum Outcome: Sendable {
        /// The descriptor is readable, writable, or has an error that the next call on it returns.
        case ready
        /// The deadline passed first.
        case timedOut
        /// The interrupt was tripped first.
        case interrupted
        /// poll failed with this errno.
        case failed(Int32)
    }

    /// Waits until the descriptor is ready, the deadline passes or the interrupt is tripped.
    package static func wait(
        _ descriptor: Int32, for direction: Direction, deadline: Deadline, interrupt: Interrupt?
    ) -> Outcome {
        var watched = (
            pollfd(fd: descriptor, events: direction.events, revents: 0),
            // poll ignores a negative descriptor.
            pollfd(fd: interrupt?.descriptor ?? -1, events: Int16(POLLIN), revents: 0)
        )
        while true {
            let count = withUnsafeMutableBytes(of: &watched) { bytes in
                poll(
                    bytes.baseAddress?.assumingMemoryBound(to: pollfd.self), 2,
                    deadline.remainingMilliseconds)
            }
            if count < 0 {
                if errno == EINTR { continue }
                return .failed(errno)
            }
            if watched.1.revents != 0 { return .interrupted }
            if watched.0.revents != 0 { return .ready }
            if deadline.hasPassed { return .timedOut }
        }
    }

    /// The same; false where the deadline passed first. Throws `interrupted` or `io`.
    static func isReady(
        _ descriptor: Int32, for direction: Direction, deadline: Deadline, interrupt: Interrupt?,
        _ action: @autoclosure () -> String
    ) throws(TransportFailure) -> Bool {
        switch wait(descriptor, for: direction, deadline: deadline, interrupt: interrupt) {
        case .ready: return true
        case .timedOut: return false
        case .interrupted: throw .interrupted(while: action())
        case .failed(let error): throw .system(action(), error)
        }
    }
}

/// A thread for one connection.
///
/// Connections block in poll, so they must not run on Swift's cooperative thread pool, whose few
/// threads must not block.
package final class WorkerThread: Sendable {
    private let handle: Mutex<pthread_t?>

    private final class Body: Sendable {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
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
        if let thread = handle.withLock({ $0 }) { pthread_detach(thread) }
    }

    /// Waits until the body has returned. A second call returns at once.
    package func join() {
        if let thread = handle.withLock({ $0.take() }) { pthread_join(thread, nil) }
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
    guard writeWhole(bytes, to: descriptor) else {
        close(descriptor)
        return nil
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

private let ignored: Void = { signal(SIGPIPE, SIG_IGN) }()

/// Makes a write to a closed connection return an error instead of ending the process.
///
/// OpenSSL writes with write(2), which has no MSG_NOSIGNAL, so SIGPIPE is ignored for the whole
/// process (signal(7)). Both TLS contexts call this; further calls change nothing.
package func ignoreBrokenPipes() { _ = ignored }

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
