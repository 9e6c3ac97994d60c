import APNsProtocol
import PushQueue
import TokenHygiene

/// Something that went wrong with some rows: how many, what is said about them on stderr, and the code with
/// which the run fails although the queue was drained; nil where it does not fail.
struct SendComplaint {
    let count: Int
    let sentence: String
    let exit: ExitStatus?
}

extension SendState {
    /// The divisor for the share of unknown outcomes, and of rows that failed, above which a run fails: one
    /// in ten.
    private static let tolerated = 10
    /// Rows of which none was sent that are told of.
    private static let many = 10

    /// Rows that were closed without an answer, suspect tokens that could not be judged yet, rows called
    /// sent that late error packets proved dropped, at the least, rows closed as failed, rows of which
    /// none was sent, rows that wait, and odd answers.
    func complaints(late: Int) -> [SendComplaint] {
        let (unknown, detector) = (entry.unknown, rules.detector)
        let reason = doubt.reason.isEmpty ? "" : " (the last one: \(doubt.reason))"
        let isMismatchLikely = detector.isMismatchLikely
        return [
            SendComplaint(
                count: unknown,
                sentence: "sending for \(partition): \(unknown) of "
                    + "\(entry.decided.counting("notification")) are of unknown outcome\(reason): "
                    + SendWords.meaning,
                exit: unknown * Self.tolerated > entry.decided ? doubt.exit : nil),
            SendComplaint(
                count: deferred,
                sentence: "sending for \(partition): "
                    + (isMismatchLikely ? "environment mismatch suspected: " : "")
                    + "APNs called \(detector.bad) of \(detector.answers.counting("token")) bad "
                    + "(BadDeviceToken or DeviceTokenNotForTopic), too few to tell bad tokens from a wrong "
                    + "setting; \(deferred.counting("row")) will be tried again from an hour on, ten times "
                    + "in all; check that host, certificate or key, and topic belong to the environment of "
                    + "these tokens",
                exit: !hasLooked && isMismatchLikely ? .configuration : nil),
            SendComplaint(
                count: late,
                sentence: "sending for \(partition): \(gateway) sent error packets later than "
                    + "apps[].binary.error-wait; at least \(late.counting("notification")) counted as sent "
                    + "and were dropped; raise error-wait, and insert them again",
                exit: .configuration),
            failed, unsent, waiting, odd,
            SendComplaint(
                count: entry.impossibleTimes,
                sentence:
                    "sending for \(partition): \(entry.impossibleTimes.counting("answer")) of 410 "
                    + "\(entry.impossibleTimes == 1 ? "names a time" : "name times") before June 2009 or more than "
                    + "5 minutes ahead of the database's clock; the time of sending counted in place of it; check "
                    + "that clock, and who answers for \(gateway)",
                exit: nil),
        ]
    }

    /// Rows that were throttled or refused and wait. Where they are most of all, the run fails; where something else
    /// than APNs refused some, they are told.
    private var waiting: SendComplaint {
        let total = postponed.values.reduce(0, +)
        let isMost = total * 2 > entry.decided
        // What stopped the sending is told already.
        let isTold = stop == nil && (isMost || refusedByOthers > 0)
        var advice = "run again in some minutes"
        if postponed[ProviderReason.tooManyRequests.description] != nil {
            advice += ", and send more slowly (--rate)"
        }
        if refusedByOthers > 0 {
            advice +=
                "; for \(refusedByOthers) something else than APNs answered, such as a proxy, and they are tried again "
                + "until it does not: check what stands before \(gateway)"
        }
        return SendComplaint(
            count: isTold ? total : 0,
            sentence:
                "sending for \(partition): \(total) of \(entry.decided.counting("notification")) were throttled or "
                + "refused and wait to be sent again: \(Self.listed(postponed)); \(advice)",
            exit: isMost ? .pending : nil)
    }

    /// Reasons that Apple's list does not have.
    private var odd: SendComplaint {
        SendComplaint(
            count: unlisted.values.reduce(0, +),
            sentence:
                "sending for \(partition): \(gateway) gave reasons that are not on Apple's list: "
                + "\(Self.listed(unlisted)); nothing follows from them for the tokens, and their notifications are "
                + "tried ten times; look the reasons up in Apple's \"Handling notification responses from APNs\"",
            exit: nil)
    }

    /// Rows that are never sent again, for another reason than their token's.
    private var failed: SendComplaint {
        let total = entry.rejected.values.reduce(0, +)
        let ofTokens = entry.rejected.filter { Self.blamesToken($0.key) }.values.reduce(0, +)
        return SendComplaint(
            count: total,
            sentence:
                "sending for \(partition): \(total) of \(entry.decided.counting("notification")) "
                + "\(total == 1 ? "is" : "are") closed as failed and not sent again: "
                + "\(Self.listed(entry.rejected)); correct what the reason names, then queue them anew",
            exit: (total - ofTokens) * Self.tolerated > entry.decided ? .quarantined : nil)
    }

    private static func blamesToken(_ reason: String) -> Bool {
        [ProviderReason.badDeviceToken, .deviceTokenNotForTopic].map(\.description)
            .contains(reason) || reason == BinaryStatus.invalidToken.description
    }

    /// Many rows of which none was sent, where nothing else is said about all of them.
    private var unsent: SendComplaint {
        let total = entry.claimed
        let isSaid =
            stop != nil || waiting.count > 0
            || [entry.unknown, deferred, entry.rejected.values.reduce(0, +)].contains(total)
        let isNone = entry.sent == 0 && total >= Self.many && !isSaid
        var parts = entry.skipped.isEmpty ? [] : ["skipped \(Self.listed(entry.skipped))"]
        for (words, count) in [
            ("gone", entry.gone), ("to retry", entry.retry), ("of unknown outcome", entry.unknown),
        ] where count > 0 {
            parts.append("\(count) \(words)")
        }
        let isMisfit =
            [SkipReason.unknown, .malformed].map { entry.skipped[$0.rawValue] ?? 0 }.reduce(0, +)
            * 2
            > total
        return SendComplaint(
            count: isNone ? total : 0,
            sentence:
                "sending for \(partition): none of \(total.counting("notification")) was sent: "
                + parts.joined(separator: ", ")
                + (isMisfit
                    ? "; check that store.push-queue.token, its encoding, the app and its environment fit "
                        + "the token table: `pushsweep explain` tells what is known of a token"
                    : ""),
            exit: nil)
    }

    /// Reasons with their counts, the most frequent first.
    private static func listed(_ counts: [String: Int]) -> String {
        counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { "\($0.value) \($0.key)" }.joined(separator: ", ")
    }
}
