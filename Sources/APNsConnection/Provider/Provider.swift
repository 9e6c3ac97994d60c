// A provider as a sender uses it: notifications in, outcomes out. Each notification has the
// caller's key and gets exactly one outcome, even when connections fail. It consists of a mailbox
// and a few threads, each with its own connection.

import SecureTransport

/// The connections to one gateway under one credential.
package final class Provider: Sendable {
    /// The gateway, the credential and the limits.
    package let plan: ProviderPlan
    private let mailbox = ProviderMailbox()
    private let interrupt: Interrupt
    private let threads: [WorkerThread]

    /// Starts `connections` threads. A thread connects when there is a notification to send.
    ///
    /// - Throws: `io` where no thread can be started.
    package init(_ plan: ProviderPlan, connections: Int) throws(TransportFailure) {
        self.plan = plan
        let interrupt = try Interrupt()
        self.interrupt = interrupt
        let mailbox = mailbox
        var threads: [WorkerThread] = []
        for _ in 0..<max(1, connections) {
            mailbox.enter()
            do throws(TransportFailure) {
                threads.append(
                    try WorkerThread {
                        var connection = ProviderConnection(plan, mailbox, interrupt)
                        mailbox.leave(connection.run())
                    })
            } catch {
                mailbox.leave(nil)
                mailbox.stop()
                interrupt.trip()
                for thread in threads { thread.join() }
                throw error
            }
        }
        self.threads = threads
    }

    /// Passes notifications to the connections. Their keys must differ from those of all
    /// notifications without an outcome.
    package func give(_ items: [ProviderItem]) { mailbox.give(items) }

    /// Waits for outcomes; empty when `milliseconds` pass without one.
    package func outcomes(within milliseconds: Int) -> [ProviderOutcome] {
        mailbox.outcomes(within: milliseconds)
    }

    /// Removes and returns the notifications that no connection has taken.
    package func withdraw() -> [ProviderItem] { mailbox.withdraw() }

    /// The reason why no connection works; nil while one does.
    package var failure: ProviderFailure? { mailbox.failure }

    /// Ends all connections: orderly once nothing is in flight, or immediately with `abruptly`.
    /// Afterwards every notification that was not withdrawn has its outcome.
    package func stop(abruptly: Bool = false) {
        mailbox.stop()
        if abruptly { interrupt.trip() }
        for thread in threads { thread.join() }
    }
}
