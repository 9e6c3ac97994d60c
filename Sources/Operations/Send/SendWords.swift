import PushQueue
import TokenHygiene

/// The sender's messages on stderr about rows that were closed without an answer, and about suspect
/// tokens that could not be judged yet. Each count is reported once, and again when it has grown.
struct SendWords {
    /// The divisor for the share of unknown outcomes above which a run fails: one in ten.
    static let toleratedUnknown = 10

    private var toldUnknown = 0
    private var toldDeferred = 0
    private var toldLate = 0

    /// The warnings that are due. `reason` says how the last unknown outcome of this run came about.
    mutating func warnings(
        _ entry: SendReport.App, deferred: Int, _ detector: MismatchDetector, reason: String
    ) -> [String] {
        var words: [String] = []
        if entry.unknown > toldUnknown { words.append(Self.unknown(entry, reason)) }
        if deferred > toldDeferred { words.append(Self.deferred(entry, deferred, detector)) }
        (toldUnknown, toldDeferred) = (entry.unknown, deferred)
        return words
    }

    /// The warning about late error packets, when their number has grown.
    mutating func warnings(late: Int, _ app: Partition, _ gateway: String) -> [String] {
        guard late > toldLate else { return [] }
        toldLate = late
        return [Self.late(late, app, gateway)]
    }

    /// What late error packets proved and what to do.
    static func late(_ late: Int, _ app: Partition, _ gateway: String) -> String {
        "sending for \(app): \(gateway) sent error packets later than apps[].binary.error-wait; at least "
            + "\(late.counting("notification")) counted as sent and were dropped; raise error-wait, and "
            + "enqueue them again"
    }

    /// The failures that are added at the end of a run; `exit` is the code for unknown outcomes.
    mutating func shortcomings(
        _ entry: SendReport.App, deferred: Int, _ detector: MismatchDetector, exit: ExitStatus,
        reason: String
    ) -> [RunFailure] {
        var failures: [RunFailure] = []
        if entry.unknown * Self.toleratedUnknown > entry.decided {
            failures.append(RunFailure(exit, .send, Self.unknown(entry, reason)))
            toldUnknown = entry.unknown
        }
        let hasLooked = detector.answers >= MismatchDetector.firstTest
        if deferred > 0, !hasLooked, detector.isMismatchLikely {
            failures.append(
                RunFailure(.configuration, .send, Self.deferred(entry, deferred, detector)))
            toldDeferred = deferred
        }
        return failures
    }

    /// The warning about rows of senders that are gone, which were closed or are sent again; nil when
    /// there are none.
    static func warning(_ reclaimed: ReclaimedRows) -> String? {
        if reclaimed.unknown > 0 {
            return
                "\(reclaimed.unknown.counting("notification")) of senders that are gone are of unknown "
                + "outcome: \(meaning)"
        }
        guard reclaimed.resent > 0 else { return nil }
        return
            "\(reclaimed.resent.counting("notification")) of senders that are gone are of unknown outcome "
            + "and are sent again under their apns-id, as send.resend-unknown says: some may be delivered "
            + "twice"
    }

    /// What became of answers that a sender of this host had kept; nil when there were none. The first
    /// sentence is for information, the second is a warning.
    static func settled(_ answers: SettledAnswers) -> (news: String?, warning: String?) {
        var words: (news: String?, warning: String?)
        if answers.written > 0 {
            words.news =
                "\(answers.written.counting("notification")) of senders that are gone got the result "
                + "of an answer that was kept"
        }
        let differing = answers.differing.values.reduce(0, +)
        if differing > 0 {
            let states = answers.differing.sorted { $0.key.rawValue < $1.key.rawValue }
                .map { "\($0.value) \($0.key.rawValue)" }.joined(separator: ", ")
            words.warning =
                "answers of APNs to \(differing.counting("notification")) were kept and came too late: "
                + "the lease had ended, and another sender has the rows, which say \(states); they were "
                + "left as they are, so some may be delivered twice; raise send.lease, or start the "
                + "sender of this host again sooner"
        }
        return words
    }

    /// What a log of answers that cannot be read to its end means.
    static func damagedAnswers(_ folder: String) -> String {
        "the end of the answers kept in \(folder) is damaged; rows whose answers it had are of unknown "
            + "outcome when their leases end"
    }

    private static let meaning =
        "they were on the wire and no answer is known, so they may have been delivered; their rows "
        + "have the state unknown and are not sent again unless send.resend-unknown is true"

    private static func unknown(_ entry: SendReport.App, _ reason: String) -> String {
        "sending for \(entry.app)/\(entry.environment): \(entry.unknown) of "
            + "\(entry.decided.counting("notification")) are of unknown outcome"
            + (reason.isEmpty ? "" : " (the last one: \(reason))") + ": \(meaning)"
    }

    private static func deferred(
        _ entry: SendReport.App, _ count: Int, _ detector: MismatchDetector
    ) -> String {
        "sending for \(entry.app)/\(entry.environment): "
            + (detector.isMismatchLikely ? "environment mismatch suspected: " : "")
            + "APNs called \(detector.bad) of \(detector.answers.counting("token")) bad (BadDeviceToken or "
            + "DeviceTokenNotForTopic), too few to tell bad tokens from a wrong setting; "
            + "\(count.counting("row")) will be tried again from an hour on, ten times in all; check "
            + "that host, certificate or key, and topic belong to the environment of these tokens"
    }
}

extension SendReport.App {
    /// Number of rows that were to be sent and have a result.
    var decided: Int {
        sent + gone + retry + unknown + rejected.values.reduce(0, +)
    }
}
