import Foundation

/// The clock, the pauses and the number of tries of the store: all its dependence on time, injected
/// so that tests need not wait.
package struct Pacing: Sendable {
    /// The number of tries in a row before the store gives up.
    package var tries: Int
    /// The number of tokens in the first chunk of a feed.
    package var firstChunk: Int
    /// Milliseconds on a monotonic clock.
    package var monotonic: @Sendable () -> Double
    /// Pauses the thread for a number of milliseconds.
    package var sleep: @Sendable (Int) -> Void
    /// Returns a random number from 0 up to 1.
    package var random: @Sendable () -> Double
    /// Receives the milliseconds for which each committed chunk held its locks; called on the
    /// chunk's thread.
    package var transactionTook: @Sendable (Double) -> Void = { _ in }
    /// The conditions for pausing between chunks and for ending early.
    package var throttle = Throttle()

    /// Makes pacing; the default tries five times and uses real time.
    package init(
        tries: Int = 5, firstChunk: Int = 900,
        monotonic: @escaping @Sendable () -> Double = Pacing.uptime,
        sleep: @escaping @Sendable (Int) -> Void = Pacing.pause(milliseconds:),
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
    ) {
        self.tries = tries
        self.firstChunk = firstChunk
        self.monotonic = monotonic
        self.sleep = sleep
        self.random = random
    }

    /// Milliseconds to pause after a failed try (the first is 1): between half and all of 50, 100,
    /// 200, … 2000. Jittered, so that two senders that collided do not collide again at once.
    func pause(after attempt: Int) -> Int {
        let whole = min(50.0 * Double(1 << min(max(attempt, 1) - 1, 10)), 2_000)
        return Int(whole * (0.5 + random() / 2))
    }

    /// Milliseconds since an unspecified moment in the past.
    package static func uptime() -> Double {
        Double(DispatchTime.now().uptimeNanoseconds) / 1_000_000
    }

    /// Blocks the calling thread for a number of milliseconds.
    package static func pause(milliseconds: Int) {
        usleep(UInt32(clamping: milliseconds) * 1_000)
    }
}

/// Repeats operations that can fail temporarily, a few times, with pauses.
package struct RetryPolicy {
    let connection: any SQLConnection
    let pacing: Pacing

    /// Repeats on a connection, with the tries and pauses of the pacing.
    package init(connection: any SQLConnection, pacing: Pacing) {
        self.connection = connection
        self.pacing = pacing
    }

    /// Throws the failure when another try cannot help, else pauses.
    func giveUp(
        on failure: SQLFailure, after attempt: Int, doing: String
    ) throws(StoreFailure) {
        let tries =
            switch failure.kind {
            case .conflict, .lost, .overloaded, .unreachable: pacing.tries
            // Another node may have become the writable one.
            case .readOnly: 2
            case .untrusted, .misplaced, .permission, .configuration, .refused, .leaseLost, .other:
                1
            }
        if attempt >= tries { throw StoreFailure(failure, while: doing) }
        pacing.sleep(pacing.pause(after: attempt))
    }

    /// Runs a transaction or a read until it succeeds; connects again after a loss. `failure` is
    /// that of an earlier try. Throws `StoreFailure` after the last try.
    package func retrying<R>(
        _ doing: String, after failure: SQLFailure? = nil, _ body: () throws(SQLFailure) -> R
    ) throws(StoreFailure) -> R {
        var needsConnection = failure?.needsConnection ?? false
        var attempt = 1
        while true {
            do {
                if needsConnection { try connection.connect() }
                needsConnection = false
                return try body()
            } catch {
                connection.rollBack()
                needsConnection = needsConnection || error.needsConnection
                try giveUp(on: error, after: attempt, doing: doing)
                attempt += 1
            }
        }
    }
}
