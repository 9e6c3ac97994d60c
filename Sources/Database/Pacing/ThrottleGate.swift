/// The throttle's check between two chunks of a store. Confined to the store's thread.
package final class ThrottleGate {
    private let throttle: Throttle
    private let pacing: Pacing
    private let probe: ThrottleProbe
    private var nextLook: Double

    init(_ pacing: Pacing, _ probe: ThrottleProbe) {
        throttle = pacing.throttle
        self.pacing = pacing
        self.probe = probe
        nextLook = pacing.monotonic()
    }

    /// Returns true as soon as the run may continue, and false when `shouldStop` ends a pause.
    ///
    /// - Throws: `stopped` where the run has to end; any failure of a query to a server.
    package func pass(shouldStop: () -> Bool) throws(StoreFailure) -> Bool {
        try end(throttle.ending(at: pacing.monotonic()), after: nil)
        guard throttle.asksServers, pacing.monotonic() >= nextLook else { return true }
        var pausedSince: Double?
        while true {
            let decision = throttle.decide(try probe.read())
            let now = pacing.monotonic()
            guard case .pause(let reason, let sentence) = decision else {
                try end(decision, after: pausedSince)
                if let pausedSince {
                    throttle.story(
                        "goes on after a pause of \(Throttle.seconds(((now - pausedSince) / 1_000).rounded()))"
                    )
                }
                nextLook = now + Throttle.interval
                return true
            }
            if pausedSince == nil { throttle.story("pauses: \(sentence)") }
            let since = pausedSince ?? now
            pausedSince = since
            if now - since >= Throttle.longestPause {
                try end(.stop(reason, sentence), after: since)
            }
            if shouldStop() { return false }
            pacing.sleep(Throttle.pause)
            try end(throttle.ending(at: pacing.monotonic()), after: since)
        }
    }

    private func end(
        _ decision: Throttle.Decision?, after pausedSince: Double?
    ) throws(StoreFailure) {
        guard case .stop(let reason, let sentence)? = decision else { return }
        let pause = pausedSince.map {
            ", after a pause of "
                + Throttle.seconds(((pacing.monotonic() - $0) / 1_000).rounded())
        }
        throw StoreFailure(
            stopped: reason,
            "ending this run early: \(sentence)\(pause ?? ""); what is done stands, "
                + (reason == .stopFile ? "remove that file, then " : "") + "run again to continue")
    }
}
