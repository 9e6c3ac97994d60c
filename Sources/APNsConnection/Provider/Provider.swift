// A provider as a sender uses it: notifications in, outcomes out, each under the caller's key and
// each exactly once, whatever happens to connections. Behind it are a few threads, each with a
// connection of its own, and a mailbox.

import SecureTransport

/// The connections to one gateway under one credential.
package final class Provider: Sendable {
    /// Where and as whom.
    package let plan: ProviderPlan
    private let mailbox = ProviderMailbox()
    private let interrupt: Interrupt
    private let threads: [WorkerThread]

    /// Starts `connections` threads; none connects before there is something to send.
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

    /// Gives notifications; keys must differ from all without an outcome.
    package func give(_ items: [ProviderItem]) { mailbox.give(items) }

    /// Waits for outcomes; empty when the time came first.
    package func outcomes(within milliseconds: Int) -> [ProviderOutcome] {
        mailbox.outcomes(within: milliseconds)
    }

    /// Takes back what is on no connection yet.
    package func withdraw() -> [ProviderItem] { mailbox.withdraw() }

    /// Why no connection goes on; nil while one does.
    package var failure: ProviderFailure? { mailbox.failure }

    /// Ends all connections: in good order once nothing is in flight, at once with `abruptly`. After
    /// it every notification that was not withdrawn has its outcome.
    package func stop(abruptly: Bool = false) {
        mailbox.stop()
        if abruptly { interrupt.trip() }
        for thread in threads { thread.join() }
    }
}
