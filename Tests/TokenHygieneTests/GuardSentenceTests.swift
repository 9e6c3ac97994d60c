import APNsProtocol
import Testing
import TokenHygiene

@Suite("What is said of a removal, a report and a sender")
struct GuardSentenceTests {
    @Test(
        "each cause to hold a removal has its gate and its sentence",
        arguments: [
            (
                .volume(removals: 61, usualPeak: 20), .volume,
                "61 rows would have become invalid within an hour, more than 3 times the usual peak of 20"
            ),
            (
                .volumeWithoutHistory(removals: 61, living: 900), .volume,
                "61 of 900 living rows would have become invalid within an hour, more than 1 %, and there is "
                    + "too little history to call that usual"
            ),
            (
                .partitionShare(removals: 61, living: 900, percent: 2.5), .partitionShare,
                "61 of 900 living rows would have become invalid within an hour, more than 2.5 % "
                    + "(guard.partition-percent)"
            ),
            (
                .dayShare(removals: 61, living: 900, percent: 10), .dayShare,
                "61 of 900 living rows would have become invalid within 24 hours, more than 10 % "
                    + "(guard.day-percent)"
            ),
            (
                .registeredLater(count: 61, known: 90), .registeredLater,
                "61 of 90 tuples about known tokens are older than the registration: a wrong clock or time "
                    + "zone is suspected"
            ),
            (
                .oneTime(count: 61, tokens: 62), .oneTime,
                "61 of 62 tokens are said to be dead since the same moment: the gateway does not seem to "
                    + "know when"
            ),
            (
                .outOfBounds(count: 61, tuples: 90), .outOfBounds,
                "61 of 90 tuples carry a time that cannot be: a wrong clock or unit is suspected"
            ),
            (
                .behind(batch: "abcd"), .behind,
                "it waits behind batch abcd, which holds its app and environment"
            ),
        ] as [(GuardCause, GuardGate, String)])
    func causes(_ cause: GuardCause, gate: GuardGate, sentence: String) {
        #expect("\(cause)" == sentence)
        #expect(cause.gate == gate)
    }

    @Test("tokens that no row has are told with their number and what to compare")
    func unknownTokens() {
        let cause = GuardCause.unknownTokens(count: 61, tuples: 90)
        #expect(
            "\(cause)".hasPrefix("61 of 90 tuples name a token that no row has: another table, "))
        #expect("\(cause)".hasSuffix("value and environment, its gateway and certificate"))
        #expect(cause.gate == .unknownTokens)
    }

    @Test("a mismatch of the environment is told with its numbers")
    func mismatches() {
        #expect(
            "\(EnvironmentMismatch.badShare(bad: 12, answers: 50))"
                == "environment mismatch suspected: APNs called 12 of 50 tokens bad")
        #expect(
            "\(EnvironmentMismatch.nothingKnown(bad: 12, answers: 50))"
                == "environment mismatch suspected: APNs knew none of the first 50 tokens and called 12 of "
                + "them bad")
    }

    @Test(
        "the limits are 100 rows, 5 % of an hour and 10 % of a day where the settings say nothing")
    func limits() {
        let limits = GuardLimits()
        #expect(limits.floor == 100 && limits.partitionPercent == 5 && limits.dayPercent == 10)
        #expect(RemovalGuard().limits == limits)
    }

    @Test(
        "each mistake of a report has a sentence, and those with a value of their own one name for all",
        arguments: [
            (
                .time(.future, EpochMilliseconds(1)), "it has \(EvidenceRejection.future)",
                "time \(EvidenceRejection.future)"
            ),
            (
                .time(.tooEarly, EpochMilliseconds(99_999_999_999)),
                "its time is 99999999999 ms, before June 2009: it seems to be in seconds",
                "time \(EvidenceRejection.tooEarly)"
            ),
            (
                .time(.tooEarly, EpochMilliseconds(100_000_000_000)),
                "it has \(EvidenceRejection.tooEarly)",
                "time \(EvidenceRejection.tooEarly)"
            ),
            (
                .time(.tooEarly, EpochMilliseconds(1)),
                "its time is 1 ms, before June 2009: it seems to be in seconds",
                "time \(EvidenceRejection.tooEarly)"
            ),
            (
                .time(.tooEarly, EpochMilliseconds(0)), "it has \(EvidenceRejection.tooEarly)",
                "time \(EvidenceRejection.tooEarly)"
            ),
            (
                .contradiction(status: 200, reason: "Unregistered"),
                "status 200 and reason Unregistered contradict each other", "contradiction"
            ),
            (.field("status", expected: "a number"), "its status is not a number", nil),
            (.line("it is no JSON"), "it is no JSON", nil),
            (.form("two forms", cure: nil), "two forms", "form"),
            (.form("two forms", cure: "give --format"), "two forms; give --format", "form"),
            (
                .nested(path: "$.log", isCut: true),
                "the text in $.log begins a JSON object and does not end it, so it was cut off", nil
            ),
            (
                .nested(path: "$.log", isCut: false),
                "text stands beside the JSON object in $.log, so no field is read from it", nil
            ),
        ] as [(UnusableReport, String, String?)])
    func unusable(_ mistake: UnusableReport, sentence: String, name: String?) {
        #expect("\(mistake)" == sentence)
        #expect(mistake.mistake == name ?? sentence)
    }
}
