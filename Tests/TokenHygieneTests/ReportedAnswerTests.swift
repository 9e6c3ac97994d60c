import APNsProtocol
import Testing
import TokenHygiene

@Suite("Reports of other senders")
struct ReportedAnswerTests {
    private static let now = EpochMilliseconds(1_700_000_000_000)
    private static let then = EpochMilliseconds(1_699_000_000_000)
    private let reader = ReportReader(now: Self.now, mayUseArrival: false)

    private func report(
        _ status: Int?, _ reason: String? = nil, token: String = "c9d4c07c",
        time: EpochMilliseconds? = Self.then, sent: EpochMilliseconds? = nil
    ) -> ReportedAnswer {
        var report = ReportedAnswer(token: Array(token.utf8), status: status, reason: reason)
        report.timestamp = time
        report.sentAt = sent
        report.receivedAt = Self.now
        return report
    }

    @Test("A 410 is evidence, under the reason that APNs gave")
    func gone() throws {
        let token = try #require(DeviceToken([0xc9, 0xd4, 0xc0, 0x7c]))
        #expect(try reader.read(report(410)) == .evidence(token, .unregistered, Self.then))
        #expect(
            try reader.read(report(410, "Unregistered", token: "<C9D4 C07C>"))
                == .evidence(token, .unregistered, Self.then))
        #expect(
            try reader.read(report(nil, "ExpiredToken"))
                == .evidence(token, .expiredToken, Self.then))
    }

    @Test("Each of Apple's reasons for a 410 is a source of its own; any other is Unregistered")
    func sources() {
        let reasons = ProviderReason.listed.filter { $0.status == 410 }
        for reason in reasons {
            #expect(EvidenceSource(gone: reason).rawValue == reason.description)
        }
        for reason in [nil, ProviderReason("feedback"), .badTopic] {
            #expect(EvidenceSource(gone: reason) == .unregistered)
        }
    }

    @Test("A bad token is a suspect, and every other answer says nothing about the token")
    func others() throws {
        #expect(try reader.read(report(400, "BadDeviceToken")) == .suspect)
        #expect(try reader.read(report(nil, "DeviceTokenNotForTopic", token: "?")) == .suspect)
        for (status, reason) in [
            (200, nil), (400, "BadTopic"), (403, "InvalidProviderToken"), (429, "TooManyRequests"),
            (500, nil), (503, "Shutdown"), (nil, nil), (nil, "timeout"),
        ] as [(Int?, String?)] {
            #expect(try reader.read(report(status, reason)) == .nothing)
        }
    }

    @Test("The time of sending stands for a missing time, the time of arrival only when allowed")
    func times() throws {
        let token = try #require(DeviceToken([0xc9, 0xd4, 0xc0, 0x7c]))
        let sent = EpochMilliseconds(1_698_000_000_000)
        #expect(
            try reader.read(report(410, time: nil, sent: sent))
                == .evidence(token, .unregistered, sent))
        // The timestamp of an unknown reason may mean something else.
        #expect(
            try reader.read(report(410, "Gone", sent: sent))
                == .evidence(token, .unregistered, sent))
        #expect(throws: UnusableReport.missingTime) { try reader.read(report(410, time: nil)) }
        #expect(throws: UnusableReport.foreignReason) { try reader.read(report(410, "Gone")) }
        // A network without an answer is logged as 0 or -1.
        #expect(try reader.read(report(0)) == .nothing && reader.read(report(-1)) == .nothing)
        let lenient = ReportReader(now: Self.now, mayUseArrival: true)
        #expect(
            try lenient.read(report(410, time: nil)) == .evidence(token, .unregistered, Self.now))
    }

    @Test(
        "A report that cannot be true is unusable, with the cure",
        arguments: [
            (ReportedAnswer(token: [], status: 410), "the token is blank"),
            (ReportedAnswer(token: Array("c9d".utf8), status: 410), "odd number of hex digits"),
            (ReportedAnswer(token: Array("c9".utf8), status: 410), "it has no time: give"),
            (
                ReportedAnswer(token: Array("c9".utf8), status: 410, reason: "BadDeviceToken"),
                "contradict each other"
            ),
        ])
    func unusable(_ report: ReportedAnswer, _ words: String) throws {
        let refusal = #expect(throws: UnusableReport.self) { try reader.read(report) }
        #expect("\(try #require(refusal))".contains(words))
    }

    @Test("A time in the wrong unit or in the future is unusable")
    func wrongUnit() throws {
        let seconds = #expect(throws: UnusableReport.self) {
            try reader.read(report(410, time: EpochMilliseconds(1_699_000_000)))
        }
        #expect("\(try #require(seconds))".contains("seems to be in seconds"))
        let micro = #expect(throws: UnusableReport.self) {
            try reader.read(report(410, time: EpochMilliseconds(1_699_000_000_000_000)))
        }
        #expect("\(try #require(micro))".contains("ahead of this machine's clock"))
    }
}
