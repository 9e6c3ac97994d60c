import APNsProtocol
import TestSupport
import Testing

@Suite("The meaning of an answer")
struct AnswerMeaningTests {
    private static let time: Int64 = 1_700_000_000_123

    /// Apple's list: status, spelling, and the meaning in the decision table.
    static let table: [(Int, String, AnswerMeaning)] = [
        (400, "BadCollapseId", .requestFault), (400, "BadDeviceToken", .suspectToken),
        (400, "BadExpirationDate", .requestFault), (400, "BadMessageId", .requestFault),
        (400, "BadPriority", .requestFault), (400, "BadTopic", .configurationFault),
        (400, "DeviceTokenNotForTopic", .suspectToken),
        (400, "DuplicateHeaders", .requestFault), (400, "IdleTimeout", .reconnect),
        (400, "InvalidPushType", .requestFault), (400, "MissingDeviceToken", .requestFault),
        (400, "MissingTopic", .configurationFault), (400, "PayloadEmpty", .requestFault),
        (400, "TopicDisallowed", .configurationFault),
        (403, "BadCertificate", .credentialFault(.none)),
        (403, "BadCertificateEnvironment", .credentialFault(.none)),
        (403, "ExpiredProviderToken", .credentialFault(.newToken)),
        (403, "Forbidden", .credentialFault(.none)),
        (403, "InvalidProviderToken", .credentialFault(.none)),
        (403, "MissingProviderToken", .credentialFault(.none)),
        (403, "UnrelatedKeyIdInToken", .credentialFault(.newConnection)),
        (403, "BadEnvironmentKeyIdInToken", .credentialFault(.none)),
        (404, "BadPath", .requestFault), (405, "MethodNotAllowed", .requestFault),
        (410, "ExpiredToken", .gone(DeathTime(named: EpochMilliseconds(time)))),
        (410, "Unregistered", .gone(DeathTime(named: EpochMilliseconds(time)))),
        (413, "PayloadTooLarge", .requestFault),
        (429, "TooManyProviderTokenUpdates", .keepProviderToken),
        (429, "TooManyRequests", .throttled),
        (500, "InternalServerError", .serverTrouble),
        (503, "ServiceUnavailable", .serverTrouble), (503, "Shutdown", .reconnect),
    ]

    private func answer(
        _ status: Int, _ reason: String?, _ timestamp: String? = nil, retryAfter: UInt32? = nil
    ) -> ProviderAnswer {
        var members = reason.map { [#""reason":"\#($0)""#] } ?? []
        if let timestamp { members.append(#""timestamp":\#(timestamp)"#) }
        let body = members.isEmpty ? "" : "{\(members.joined(separator: ","))}"
        return ProviderAnswer(
            status: status, body: AnswerBody(Array(body.utf8)), retryAfter: retryAfter)
    }

    @Test(
        "each of the 32 reasons has the meaning that the decision table gives it", arguments: table)
    func listed(status: Int, spelling: String, meaning: AnswerMeaning) {
        let reason = ProviderReason(spelling)
        #expect(reason.description == spelling)
        #expect(reason.status == status)
        #expect(answer(status, spelling, status == 410 ? "\(Self.time)" : nil).meaning == meaning)
        #expect(ProviderAnswer(reason, timestamp: Self.time).meaning == meaning)
    }

    @Test("the decision table covers every reason of Apple's list")
    func completeness() {
        #expect(ProviderReason.listed.count == 32)
        #expect(Set(ProviderReason.listed.map(\.description)) == Set(Self.table.map(\.1)))
        #expect(!Self.table.contains { [.unlisted, .refusedByGateway, .accepted].contains($0.2) })
    }

    private func parsed(_ status: Int, _ body: String, hasContentType: Bool = false)
        -> ProviderAnswer
    {
        let bytes = Array(body.utf8)
        return bytes.withUnsafeBytes {
            ProviderAnswer(status: status, body: $0, hasContentType: hasContentType)
        }
    }

    @Test(
        "a 200 means acceptance, unless its body shows that somebody else wrote it",
        arguments: [
            ("", false, true), ("", true, true), ("x", false, true), (" \n", false, true),
            ("<html>", false, false), ("\r\n <!DOCTYPE html>", false, false),
            (#"{"reason":"Unregistered"}"#, false, false), ("{}", false, false),
            ("[]", false, false), (#""ok""#, false, false), ("ok", true, false),
        ])
    func accepted(body: String, hasContentType: Bool, isAccepted: Bool) {
        let meaning = parsed(200, body, hasContentType: hasContentType).meaning
        #expect(meaning == (isAccepted ? .accepted : .refusedByGateway), "\(body)")
    }

    @Test("a 410 with one of its two reasons, and nothing else, is a verdict on the token")
    func onlyGoneIsEvidence() {
        let spellings = Self.table.map(\.1) + ["SomethingNew", nil]
        for status in [
            0, 100, 200, 201, 204, 301, 400, 401, 403, 404, 405, 410, 413, 429, 500, 502, 503, 999,
        ] {
            for spelling in spellings {
                let meaning = answer(status, spelling, "\(Self.time)").meaning
                let isGone = if case .gone = meaning { true } else { false }
                #expect(
                    isGone
                        == (status == 410 && ["Unregistered", "ExpiredToken"].contains(spelling)),
                    "\(status) \(spelling ?? "no reason")")
            }
        }
    }

    private static let (handed, heard) = (
        EpochMilliseconds(1_800_000_000_000), EpochMilliseconds(1_800_000_002_000)
    )

    @Test(
        "a 410 counts from the time that it names, else or where that cannot be true from that of handing over",
        arguments: [
            (nil, nil, false), ("1700000000123", 1_700_000_000_123, false),
            ("1243814400000", 1_243_814_400_000, false), ("1243814399999", nil, true),
            ("1800000302000", 1_800_000_302_000, false), ("1800000302001", nil, true),
            ("9223372036854775807", nil, true), ("1700000000", nil, true),
            ("\"1700000000123\"", nil, true), ("1700000000123.5", nil, true),
            ("-1700000000123", nil, true), ("9223372036854775808", nil, true), ("0", nil, true),
        ] as [(String?, Int64?, Bool)])
    func deathTime(timestamp: String?, counted: Int64?, isImpossible: Bool) {
        for reason in ["Unregistered", "ExpiredToken"] {
            guard case .gone(let death) = answer(410, reason, timestamp).meaning else {
                Issue.record("\(reason) is no verdict")
                continue
            }
            let found = death.time(handedAt: Self.handed, heardAt: Self.heard)
            #expect(found.time == counted.map(EpochMilliseconds.init) ?? Self.handed)
            #expect(found.isImpossible == isImpossible)
        }
    }

    @Test(
        "an answer speaks of its row only in Apple's words under their own status",
        arguments: [
            (410, "BadDeviceToken", .refusedByGateway), (400, "Unregistered", .refusedByGateway),
            (413, "BadDeviceToken", .refusedByGateway), (404, "Shutdown", .refusedByGateway),
            (400, nil, .refusedByGateway), (204, nil, .refusedByGateway),
            (302, nil, .refusedByGateway), (404, nil, .refusedByGateway),
            (407, nil, .refusedByGateway), (410, nil, .refusedByGateway),
            (403, nil, .refusedByGateway), (403, "Unregistered", .refusedByGateway),
            (413, nil, .refusedByGateway), (429, nil, .refusedByGateway),
            (502, nil, .refusedByGateway), (500, "Shutdown", .refusedByGateway),
            (500, "", .refusedByGateway),
            (400, "SomethingNew", .unlisted), (403, "SomethingNew", .unlisted),
            (410, "SomethingNew", .unlisted), (429, "SomethingNew", .unlisted),
            (503, "Service Unavailable", .unlisted), (418, "Teapot", .unlisted),
        ] as [(Int, String?, AnswerMeaning)])
    func statusAndReason(status: Int, reason: String?, meaning: AnswerMeaning) {
        #expect(answer(status, reason, "\(Self.time)").meaning == meaning)
    }

    @Test("a page is no answer of APNs, whatever its status")
    func pages() {
        for status in [200, 301, 400, 403, 404, 405, 410, 413, 421, 429, 500, 502, 503] {
            for body in ["<html>\"reason\":\"Unregistered\"</html>", "[]", "{}", "{\"reason\":1}"] {
                #expect(parsed(status, body).meaning == .refusedByGateway, "\(status) \(body)")
            }
        }
    }
}

@Suite("Retry-After")
struct RetryAfterTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110.
    private let example: UInt32 = 784_111_777

    @Test("Retry-After is read as seconds and as a date")
    func forms() {
        let now = EpochSeconds(example - 100)
        for (text, seconds) in [
            ("0", 0), ("120", 120), ("4294967295", UInt32.max), ("99999999999999999999", .max),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 100), ("Sun, 06 Nov 1994 08:47:37 GMT", 0),
            ("Thu, 29 Feb 2096 23:59:60 GMT", 3_197_286_723),
        ] as [(String, UInt32)] {
            #expect(RetryAfter.seconds(Array(text.utf8), now: now) == seconds, "\(text)")
        }
    }

    @Test(
        "any other form of Retry-After is ignored",
        arguments: [
            "", " ", "-1", "+5", "1.5", "5 seconds", "soon", "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nux 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 19944 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "GMT GMT GMT GMT GMT GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT                                             ",
        ])
    func refusals(text: String) {
        #expect(RetryAfter.seconds(Array(text.utf8), now: EpochSeconds(0)) == nil)
    }

    @Test("reading Retry-After never traps on random text")
    func damage() {
        var random = SeededGenerator("retry-after")
        let alphabet = Array("SunNovGMT0123456789 ,:-+".utf8) + [0, 0xFF]
        for _ in 0..<50_000 {
            let text = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                alphabet[Int.random(in: 0..<alphabet.count, using: &random)]
            }
            _ = RetryAfter.seconds(text, now: EpochSeconds(1_700_000_000))
        }
    }
}
