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
        (410, "ExpiredToken", .gone(EpochMilliseconds(time))),
        (410, "Unregistered", .gone(EpochMilliseconds(time))),
        (413, "PayloadTooLarge", .requestFault),
        (429, "TooManyProviderTokenUpdates", .keepProviderToken(after: nil)),
        (429, "TooManyRequests", .throttled(after: nil)),
        (500, "InternalServerError", .serverTrouble(after: nil)),
        (503, "ServiceUnavailable", .serverTrouble(after: nil)), (503, "Shutdown", .reconnect),
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
        #expect(!Self.table.contains { $0.2 == .notUnderstood })
    }

    @Test("a 200 means acceptance, whatever the body says")
    func accepted() {
        #expect(answer(200, nil).meaning == .accepted)
        #expect(answer(200, "Unregistered", "\(Self.time)").meaning == .accepted)
    }

    @Test("a 410, and nothing else, is a verdict on the token")
    func onlyGoneIsEvidence() {
        let spellings = Self.table.map(\.1) + ["SomethingNew", nil]
        for status in [
            0, 100, 201, 204, 301, 400, 401, 403, 404, 405, 413, 429, 500, 502, 503, 999,
        ] {
            for spelling in spellings {
                let meaning = answer(status, spelling, "\(Self.time)").meaning
                if case .gone = meaning {
                    Issue.record("\(status) \(spelling ?? "no reason") is a verdict on the token")
                }
            }
        }
    }

    @Test(
        "a 410 without a usable time or with an unknown reason means gone, as of its receipt",
        arguments: [
            ("Unregistered", nil), ("ExpiredToken", nil), (nil, nil), (nil, "1700000000123"),
            ("SomethingNew", "1700000000123"), ("Unregistered", "1700000000"),
            ("Unregistered", "\"1700000000123\""), ("Unregistered", "1700000000123.5"),
            ("Unregistered", "-1700000000123"), ("Unregistered", "9223372036854775808"),
            ("Unregistered", "null"),
        ] as [(String?, String?)])
    func receiptTime(reason: String?, timestamp: String?) {
        #expect(answer(410, reason, timestamp).meaning == .gone(nil))
    }

    @Test(
        "an answer that contradicts itself is not understood; a status that suffices gives the meaning",
        arguments: [
            (410, "BadDeviceToken", .notUnderstood), (400, "Unregistered", .notUnderstood),
            (413, "BadDeviceToken", .notUnderstood), (404, "Shutdown", .notUnderstood),
            (400, "SomethingNew", .notUnderstood), (400, nil, .notUnderstood),
            (204, nil, .notUnderstood), (302, nil, .notUnderstood),
            (403, "SomethingNew", .credentialFault(.none)), (403, nil, .credentialFault(.none)),
            (403, "Unregistered", .credentialFault(.none)), (413, nil, .requestFault),
            (429, nil, .throttled(after: nil)), (502, nil, .serverTrouble(after: nil)),
            (503, "Service Unavailable", .serverTrouble(after: nil)),
            (500, "Shutdown", .serverTrouble(after: nil)),
        ] as [(Int, String?, AnswerMeaning)])
    func statusAndReason(status: Int, reason: String?, meaning: AnswerMeaning) {
        #expect(answer(status, reason, "\(Self.time)").meaning == meaning)
    }

    @Test("an answer carries the time to wait where APNs gives one")
    func waiting() {
        #expect(answer(429, "TooManyRequests", retryAfter: 7).meaning == .throttled(after: 7))
        #expect(answer(503, nil, retryAfter: 60).meaning == .serverTrouble(after: 60))
        #expect(
            answer(429, "TooManyProviderTokenUpdates", retryAfter: 9).meaning
                == .keepProviderToken(after: 9))
    }
}

@Suite("Retry-After")
struct RetryAfterTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110.
    private let example: UInt32 = 784_111_777

    @Test("Retry-After is read as seconds and as each of the three forms of a date")
    func forms() {
        let now = EpochSeconds(example - 100)
        for (text, seconds) in [
            ("0", 0), ("120", 120), ("4294967295", UInt32.max), ("99999999999999999999", .max),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 100), ("Sunday, 06-Nov-94 08:49:37 GMT", 100),
            ("Sun Nov  6 08:49:37 1994", 100), ("Sun, 06 Nov 1994 08:47:37 GMT", 0),
            ("Thu, 29 Feb 2096 23:59:60 GMT", 3_197_286_723),
        ] as [(String, UInt32)] {
            #expect(RetryAfter.seconds(Array(text.utf8), now: now) == seconds, "\(text)")
        }
    }

    @Test("a two-digit year means the century that is not over 50 years ahead")
    func centuries() {
        let now = EpochSeconds(1_700_000_000)
        // 2073-11-14 is within fifty years of 2023-11-14, 2074 is not and means 1974.
        #expect(
            RetryAfter.seconds(Array("Monday, 13-Nov-73 00:00:00 GMT".utf8), now: now) != 0)
        #expect(
            RetryAfter.seconds(Array("Wednesday, 14-Nov-74 00:00:00 GMT".utf8), now: now) == 0)
    }

    @Test(
        "any other form of Retry-After is ignored",
        arguments: [
            "", " ", "-1", "+5", "1.5", "5 seconds", "soon", "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nux 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 19944 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT", "Sun Nov 6 8:49:37 1994", "GMT GMT GMT GMT GMT GMT",
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
