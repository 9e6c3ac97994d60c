// Two senders on one queue, both killed with -9 at random moments, and a third that finishes their
// work. The gateway's book is the reference: it has every notification that was ever accepted.

import Foundation
import Glibc
import TestSupport
import Testing

@Suite("Two killed senders", .serialized)
struct SendKillTests {
    /// Kills per engine, two in a round; the printed seed and this number repeat a run.
    private static let rounds =
        Series.length("PUSHSWEEP_TEST_SENDER_KILLS", short: 6, long: 20) / 2

    @Test("two killed senders lose no row, send none twice, and leave each row in one state")
    func randomKills() throws {
        for engine in TestEngine.available {
            var random = SeededGenerator("killed senders on \(engine)")
            var unknown = 0
            for round in 0..<Self.rounds {
                let send = try MixedSend(engine, count: 1_500)
                let length = Duration.milliseconds(round % 3 == 0 ? 1_500 : 500)
                try kill(
                    send,
                    after: (0..<2).map { _ in
                        length * Double.random(in: 0...1, using: &random)
                    })
                let problem = try send.recover()
                #expect(
                    problem == nil,
                    "\(engine), seed \(random.seed), round \(round): \(problem ?? "")")
                if problem != nil { return }
                unknown += try send.stage.states()["unknown"] ?? 0
            }
            print("killed senders on \(engine): \(Self.rounds * 2) kills, \(unknown) unknown")
        }
    }

    /// Starts two senders and kills each after its time.
    private func kill(_ send: MixedSend, after moments: [Duration]) throws {
        let started = ContinuousClock.now
        var running = try moments.map { (try send.start(), $0) }
        running.sort { $0.1 < $1.1 }
        for (sender, moment) in running {
            let left = moment - (ContinuousClock.now - started)
            if left > .zero { usleep(UInt32(left / .microseconds(1))) }
            sender.signal(SIGKILL)
            _ = sender.wait()
        }
    }
}
