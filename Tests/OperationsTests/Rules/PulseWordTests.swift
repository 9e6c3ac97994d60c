import APNsProtocol
import Findings
import Testing
import TokenHygiene

@testable import Looks
@testable import Operations

@Suite("The words about the rhythm of evidence and runs")
struct PulseWordTests {
    @Test(
        "each finding has its rule, its weight and its sentence",
        arguments: [
            (
                .stopped(days: 2, usual: 0), "evidence-stopped", .medium,
                "no evidence for 2 whole days, where it came each day"
            ),
            (
                .stopped(days: 3, usual: 0), "evidence-stopped", .medium,
                "no evidence for 3 whole days, where it came each day"
            ),
            (
                .stopped(days: 4, usual: 0), "evidence-stopped", .high,
                "no evidence for 4 whole days, where it came each day"
            ),
            (
                .stopped(days: 7, usual: 1), "evidence-stopped", .medium,
                "no evidence for 7 whole days, where it never paused longer than 1 day"
            ),
            (
                .stopped(days: 12, usual: 2), "evidence-stopped", .high,
                "no evidence for 12 whole days, where it never paused longer than 2 days"
            ),
            (
                .unknown(reports: 90, of: 100), "evidence-fits-no-row", .medium,
                "90 of the 100 reports of the last 7 days name a token that no row has"
            ),
            (
                .unknown(reports: 91, of: 100), "evidence-fits-no-row", .high,
                "91 of the 100 reports of the last 7 days name a token that no row has"
            ),
            (
                .newer(reports: 99, of: 100), "evidence-of-returned", .medium,
                "99 of the 100 reports of the last 7 days are about devices that registered later"
            ),
            (
                .surge(reports: 800, usual: 100), "evidence-surge", .note,
                "800 reports yesterday, where a large day has 100"
            ),
            (
                .bad(reports: 84, usual: 28), "bad-tokens-rise", .medium,
                "APNs called tokens bad 84 times in the last 7 days, where the largest week before had 28"
            ),
        ] as [(PulseFinding, String, Severity, String)])
    func findings(_ finding: PulseFinding, rule: String, severity: Severity, sentence: String) {
        #expect(finding.rule == rule && PulseFinding.rules.contains(rule))
        #expect(finding.severity == severity)
        #expect(finding.sentence == sentence)
    }

    @Test("no two findings have the same cause or cure, and each has both")
    func causes() {
        let all: [PulseFinding] = [
            .stopped(days: 1, usual: 1), .unknown(reports: 1, of: 1), .newer(reports: 1, of: 1),
            .surge(reports: 1, usual: 1), .bad(reports: 1, usual: 1),
        ]
        #expect(Set(all.map(\.cause)).count == 5 && Set(all.map(\.cure)).count == 5)
        let words = [
            ("report nothing", "gateway still answers"), ("another table", "explain one"),
            ("an old log", "registrations.md"), ("many devices", "at holds"),
            ("another certificate", "Bad tokens"),
        ]
        for (finding, (cause, cure)) in zip(all, words) {
            #expect(finding.cause.contains(cause), "\(finding)")
            #expect(finding.cure.contains(cure), "\(finding)")
        }
    }

    @Test(
        "a span is told in hours under two days and in whole days from then on",
        arguments: [
            (0, "under an hour"), (0.99, "under an hour"), (1, "1 hours"), (47.9, "47 hours"),
            (48, "2 days"), (71.9, "2 days"), (72, "3 days"),
        ])
    func spans(hours: Double, words: String) {
        #expect(hours.spanOfHours == words)
    }

    private static let now = EpochMilliseconds(1_800_000_000_000)

    private func sweep(
        _ hoursAgo: [Int64], look: Look = .audit, most: Double = 26
    ) -> Finding? {
        var facts = Facts(look, apps: [], now: Self.now)
        facts.sweeps = SweepFacts(
            hoursAgo.map { Self.now.advanced(by: -$0 * 3_600_000) }, Self.now, hours: most)
        return RuleBook.findings(facts).first { $0.rule == "no-recent-sweep" }
    }

    @Test(
        "the last sweep is well up to its hours, too old beyond them, and unknown where there is none"
    )
    func sweeps() {
        #expect(sweep([40, 26])?.severity == .ok)
        #expect(sweep([26])?.sentence == "the last good sweep was 26 hours ago")
        #expect(sweep([27])?.severity == .high && sweep([27], most: 27)?.severity == .ok)
        #expect(sweep([27], look: .check)?.severity == .medium)
        #expect(sweep([27], look: .preflight)?.severity == .medium)
        #expect(
            sweep([27])?.cause == "the hourly job does not run, or each run fails"
                && sweep([27])?.cure.hasPrefix("see the output of the cron job") == true)
        #expect(sweep([], look: .check) == nil && sweep([])?.severity == .medium)
        #expect(
            sweep([])?.sentence
                == "neither this host nor the database knows a sweep that succeeded")
        let future = sweep([-99], look: .check)
        #expect(future?.severity == .medium)
        #expect(
            future?.sentence
                == "the only sweep known to have succeeded ended at 2027-01-19T11:00:00.000Z, which is in "
                + "the future, so a clock was or is wrong and it counts as none")
        #expect(sweep([-99, 3])?.sentence == "the last good sweep was 3 hours ago")
    }

    @Test("a gap between two sweeps is told where it is longer than 26 hours and a sweep is known")
    func gaps() {
        func finding(_ gap: Double?, _ hoursAgo: [Int64] = [1]) -> Finding? {
            var facts = Facts(.audit, now: Self.now)
            var sweeps = SweepFacts(
                hoursAgo.map { Self.now.advanced(by: -$0 * 3_600_000) }, Self.now)
            sweeps.longestGap = gap
            facts.sweeps = sweeps
            return RuleBook.findings(facts).first { $0.rule == "sweep-gap" }
        }
        #expect(finding(nil) == nil && finding(26) == nil && finding(26.1, []) == nil)
        #expect(finding(26.1)?.severity == .low && finding(26.1)?.object == "this host")
        #expect(
            finding(26.1)?.sentence
                == "the longest time between two sweeps of the period was 26 hours")
    }

    @Test("a sweep that ended a little after the present ended now")
    func clocks() {
        let sweeps = SweepFacts([Self.now.advanced(by: 1_000)], Self.now)
        #expect(sweeps.hours == 0 && sweeps.last == Self.now.advanced(by: 1_000))
        let limit = RunContext.latestEnd(Self.now)
        #expect(SweepFacts([limit], Self.now).last == limit)
        #expect(SweepFacts([limit.advanced(by: 1)], Self.now).last == nil)
        #expect(SweepFacts([], Self.now).hours == nil)
    }
}
