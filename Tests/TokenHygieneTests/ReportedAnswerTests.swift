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

    @Test(
        "A report that the device has a later token is judged like a 410 with its time; APNs never says so"
    )
    func superseded() throws {
        let token = try #require(DeviceToken([0xc9, 0xd4, 0xc0, 0x7c]))
        for status in [nil, 410] {
            #expect(
                try reader.read(report(status, "Superseded", sent: Self.now))
                    == .evidence(token, .superseded, Self.then))
        }
        #expect(throws: UnusableReport.missingTime) {
            try reader.read(report(410, "Superseded", time: nil))
        }
        for status in [200, 400, 500] {
            #expect(throws: UnusableReport.contradiction(status: status, reason: "Superseded")) {
                try reader.read(report(status, "Superseded"))
            }
        }
        #expect(EvidenceSource(gone: ProviderReason("Superseded")) == .unregistered)
    }

    @Test("A bad token is a suspect, and every other answer says nothing about the token")
    func others() throws {
        let token = try #require(DeviceToken([0xc9, 0xd4, 0xc0, 0x7c]))
        #expect(
            try reader.read(report(400, "BadDeviceToken"))
                == .suspect(token, .badDeviceToken, Self.then))
        #expect(
            try reader.read(report(nil, "DeviceTokenNotForTopic", token: "?"))
                == .suspect(nil, .deviceTokenNotForTopic, Self.then))
        // Nothing is marked by it, so its time need not be right.
        for time in [nil, EpochMilliseconds(7), Self.now.advanced(by: 900_000)] {
            #expect(
                try reader.read(report(400, "BadDeviceToken", time: time))
                    == .suspect(token, .badDeviceToken, Self.now))
        }
        for (status, reason) in [
            (201, nil), (400, "BadTopic"), (403, "InvalidProviderToken"), (429, "TooManyRequests"),
            (500, nil), (503, "Shutdown"), (nil, nil), (nil, ""), (nil, " "), (0, "timeout"),
        ] as [(Int?, String?)] {
            #expect(try reader.read(report(status, reason)) == .nothing)
        }
    }

    @Test("A 200 says when APNs accepted the token, where its time is known and can be true")
    func accepted() throws {
        let token = try #require(DeviceToken([0xc9, 0xd4, 0xc0, 0x7c]))
        #expect(try reader.read(report(200, nil)) == .accepted(token, Self.then))
        #expect(try reader.read(report(200, "")) == .accepted(token, Self.then))
        for time in [nil, EpochMilliseconds(7), Self.now.advanced(by: 900_000)] {
            #expect(try reader.read(report(200, nil, time: time)) == .nothing)
        }
        #expect(
            try reader.read(report(200, nil, time: nil, sent: Self.then))
                == .accepted(token, Self.then))
        // The status of a gateway between, beside the reason of APNs.
        #expect(try reader.read(report(200, "BadDeviceToken")) == .nothing)
        #expect(try reader.read(report(200, nil, token: "?")) == .nothing)
        #expect(throws: UnusableReport.contradiction(status: 200, reason: "Unregistered")) {
            try reader.read(report(200, "Unregistered"))
        }
    }

    @Test("A reason that APNs does not have is no silence, and one of a 410 fits no other status")
    func notUnderstood() throws {
        for text in ["unregistered", "Optional[Unregistered]", "timeout", "Unregistered\u{301}"] {
            #expect(try reader.read(report(nil, text)) == .unknownReason(ProviderReason(text)))
        }
        for status in [0, 200, 400, 500] {
            #expect(throws: UnusableReport.contradiction(status: status, reason: "Unregistered")) {
                try reader.read(report(status, "Unregistered"))
            }
        }
    }

    @Test("A token of another platform is passed over, whatever the report says about it")
    func otherPlatforms() throws {
        for token in [
            "dX9:APA91bHun4MxP5egoKMwt2KZF", " ExponentPushToken[xxxxxx]", "APA91bHun",
            "amzn1.adm-registration.v3.Y29t", "https://fcm.googleapis.com/fcm/send/x",
        ] {
            #expect(try reader.read(report(410, token: token)) == .otherPlatform)
            #expect(try reader.read(report(nil, "NotRegistered", token: token)) == .otherPlatform)
        }
        for token in ["dX9:b", "a:b", "https", ":"] {
            #expect(throws: UnusableReport.self) { try reader.read(report(410, token: token)) }
        }
        var named = report(410)
        named.namesOtherPlatform = true
        #expect(try reader.read(named) == .otherPlatform)
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
        "A report that cannot be true, or has a time in a wrong unit, is unusable, with the cure",
        arguments: [
            ("", nil, 0, "the token is blank"), ("c9d", nil, 0, "odd number of hex digits"),
            ("c9", nil, 0, "it has no time: give"),
            ("c9", "BadDeviceToken", 0, "contradict each other"),
            ("c9", nil, 1_699_000_000, "seems to be in seconds"),
            ("c9", nil, 1_699_000_000_000_000, "ahead of this machine's clock"),
            (String(repeating: "c9", count: 1_025), nil, 0, "its token is not at most 1024 bytes"),
        ] as [(String, String?, Int64, String)])
    func unusable(_ token: String, _ reason: String?, _ time: Int64, _ words: String) throws {
        let report = report(
            410, reason, token: token, time: time == 0 ? nil : EpochMilliseconds(time))
        let refusal = #expect(throws: UnusableReport.self) { try reader.read(report) }
        #expect("\(try #require(refusal))".contains(words))
    }
}
