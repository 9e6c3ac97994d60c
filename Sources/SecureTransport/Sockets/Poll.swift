import Glibc

/// The one place that waits: poll(2) on a descriptor, a deadline and an interrupt.
package enum Poll {
    /// What to wait for.
    package enum Direction: Sendable {
        /// Bytes of the peer, or its end.
        case reading
        /// Room for more bytes.
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

    /// How a wait ended.
    package enum Outcome: Sendable {
        /// Readable, writable, or in an error that the next call on the descriptor will report.
        case ready
        /// The deadline came first.
        case timedOut
        /// The interrupt was tripped first.
        case interrupted
        /// poll itself failed, with this errno.
        case failed(Int32)
    }

    /// Waits until the descriptor is ready, the deadline comes or the interrupt is tripped.
    package static func wait(
        _ descriptor: Int32, for direction: Direction, deadline: Deadline, interrupt: Interrupt?
    ) -> Outcome {
        var watched = (
            pollfd(fd: descriptor, events: direction.events, revents: 0),
            // A negative descriptor is one that poll skips.
            pollfd(fd: interrupt?.descriptor ?? -1, events: Int16(POLLIN), revents: 0)
        )
        while true {
            let count = withUnsafeMutableBytes(of: &watched) { bytes in
                poll(
                    bytes.baseAddress?.assumingMemoryBound(to: pollfd.self), 2,
                    deadline.remainingMilliseconds)
            }
            if count < 0 {
                if errno == EINTR {
                    continue
                }
                return .failed(errno)
            }
            if watched.1.revents != 0 {
                return .interrupted
            }
            if watched.0.revents != 0 {
                return .ready
            }
            if deadline.hasPassed {
                return .timedOut
            }
        }
    }
}
