import Foundation
import SecureTransport

/// Records of ended connections, to be waited for.
// Unchecked because the compiler cannot see that every access below holds the condition's lock.
final class FeedbackRecordBook: @unchecked Sendable {
    private let changed = NSCondition()
    private var kept: [FeedbackRecord] = []
    private let onEnd: (@Sendable (FeedbackRecord) -> Void)?

    init(onEnd: (@Sendable (FeedbackRecord) -> Void)?) {
        self.onEnd = onEnd
    }

    var records: [FeedbackRecord] {
        changed.withLock { kept }
    }

    /// The gateway has done its part of a connection.
    func ended(_ record: FeedbackRecord) {
        changed.withLock {
            kept.append(record)
            changed.broadcast()
        }
        onEnd?(record)
    }

    /// Waits for so many records, at most until the deadline.
    func wait(for count: Int, until deadline: Deadline) -> [FeedbackRecord] {
        changed.withLock {
            while kept.count < count, !deadline.hasPassed {
                // In portions, because NSCondition knows only the wall clock, which may jump.
                _ = changed.wait(until: Date(timeIntervalSinceNow: 0.2))
            }
            return kept
        }
    }
}
