import APNsProtocol
import APNsSimulator
import Encodings
import SecureTransport
import TestSupport
import Testing

/// Keys, tokens and requests for a gateway's rules.
struct GatewayStage {
    static let now = EpochSeconds(1_700_000_000)

    let key: SigningKey
    var rules: ProviderRules
    var credentials = GatewayCredentials()
    private var numbers = 0
    /// Signed once: each signature differs, and a new token is an update.
    private var usualAuthorization = ""

    init(_ script: ProviderScript = ProviderScript()) throws {
        key = try SigningKey()
        rules = ProviderRules(
            authentication: .token([
                "ABC123DEFG": .init(key: key.verificationKey, teamID: "DEF123GHIJ"),
                "SANDBOXKEY": .init(
                    key: key.verificationKey, teamID: "DEF123GHIJ", isForeign: true),
                "OTHERKEY00": .init(key: key.verificationKey, teamID: "DEF123GHIJ"),
                "OTHERTEAM0": .init(key: key.verificationKey, teamID: "OTHERTEAM0"),
            ]), script: script)
        usualAuthorization = try authorization()
    }

    func authorization(
        key keyID: String = "ABC123DEFG", team: String = "DEF123GHIJ", age: Int64 = 0,
        signedBy other: SigningKey? = nil
    ) throws -> String {
        let claims = try ProviderTokenClaims(
            keyID: keyID, teamID: team,
            issuedAt: EpochSeconds(UInt32(Int64(Self.now.rawValue) - age)))
        return try "bearer "
            + claims.text(signature: (other ?? key).signature(of: claims.signingInput))
    }

    static let path = "/3/device/\(FeedbackVector.tutorialHex)"
    static let id = "6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c11"

    /// A good request with some fields changed, left out (nil) or added.
    func request(
        _ changes: [String: String?] = [:], body: String = #"{"aps":{"alert":"hi"}}"#,
        extra: [(String, String)] = []
    ) -> HTTP2ServerRequest {
        var fields: [String: String] = [
            ":method": "POST", ":path": Self.path, "apns-topic": "com.example.chat",
            "apns-id": Self.id, "authorization": usualAuthorization,
        ]
        for (name, value) in changes { fields[name] = value }
        var request = HTTP2ServerRequest(1)
        for (name, value) in fields.map({ ($0.key, $0.value) }) + extra {
            _ = request.addField(name.utf8, value.utf8, limit: .max)
        }
        _ = request.addBody(body.utf8, limit: .max)
        return request
    }

    mutating func decision(
        _ request: HTTP2ServerRequest, after seconds: UInt32 = 0
    ) -> ProviderRules.Decision {
        var number = numbers
        defer { numbers = number }
        return rules.decision(
            on: request, credentials: &credentials,
            now: EpochSeconds(Self.now.rawValue + seconds)
        ) {
            number += 1
            return number
        }
    }

    /// The reason of a refusal; nil for an accepted request.
    mutating func reason(
        _ request: HTTP2ServerRequest, after seconds: UInt32 = 0
    ) -> ProviderReason? {
        guard case .reply(let reply) = decision(request, after: seconds).action else { return nil }
        let body = AnswerBody(reply.body)
        if let status = body.reason?.status { #expect(reply.status == status) }
        return body.reason
    }
}

@Suite("The rules of the provider gateway")
struct ProviderRulesTests {
    @Test("take a good request and echo its apns-id")
    func good() throws {
        var stage = try GatewayStage()
        let decision = stage.decision(stage.request())
        #expect(decision.action == .reply(.accepted))
        #expect(decision.isValid)
        #expect(decision.id.description == GatewayStage.id)
        #expect(decision.token?.hex == FeedbackVector.tutorialHex)
    }

    @Test("invent an apns-id for a request without one")
    func inventedID() throws {
        var stage = try GatewayStage()
        let request = stage.request(["apns-id": nil])
        #expect(stage.decision(request).id != stage.decision(request).id)
    }

    static let refusals: [(String, String?, ProviderReason)] = [
        (":method", "GET", .methodNotAllowed), (":method", nil, .methodNotAllowed),
        (":path", "/3/devices/abcd", .badPath), (":path", "/", .badPath), (":path", nil, .badPath),
        (":path", "/3/device/abcd/ef", .badPath), (":path", "/3/device/", .missingDeviceToken),
        (":path", "/3/device", .missingDeviceToken),
        (":path", "/3/device/abc", .badDeviceToken), (":path", "/3/device/0", .badDeviceToken),
        (":path", "/3/device/xyzw", .badDeviceToken),
        (":path", "/3/device/ab cd", .badDeviceToken),
        (":path", "/3/device/%7Blength", .badDeviceToken),
        (":path", "/3/device/" + String(repeating: "ab", count: 101), .badDeviceToken),
        ("apns-id", "1", .badMessageID), ("apns-id", "", .badMessageID),
        ("apns-topic", nil, .missingTopic), ("apns-topic", "", .badTopic),
        ("apns-topic", "com example", .badTopic),
        ("apns-push-type", "Alert", .invalidPushType), ("apns-push-type", "", .invalidPushType),
        ("apns-push-type", "voip", .badTopic),
        ("apns-priority", "7", .badPriority), ("apns-priority", "ten", .badPriority),
        ("apns-priority", "266", .badPriority), ("apns-priority", "", .badPriority),
        ("apns-expiration", "-1", .badExpirationDate),
        ("apns-expiration", "tomorrow", .badExpirationDate),
        ("apns-expiration", "1700000000000", .badExpirationDate),
        ("apns-collapse-id", String(repeating: "x", count: 65), .badCollapseID),
        ("apns-collapse-id", "", .badCollapseID),
        ("authorization", nil, .missingProviderToken),
        ("authorization", "basic abc", .missingProviderToken),
        ("authorization", "bearer ", .invalidProviderToken),
        ("authorization", "bearer a.b.c", .invalidProviderToken),
    ]

    @Test("refuse what APNs refuses, with its reason and status", arguments: refusals)
    func refused(field: String, value: String?, reason: ProviderReason) throws {
        var stage = try GatewayStage()
        #expect(stage.reason(stage.request([field: value])) == reason)
    }

    @Test("refuse payloads by the push type's limit, and empty ones")
    func payloads() throws {
        var stage = try GatewayStage()
        func body(_ count: Int) -> String { String(repeating: " ", count: count) }
        #expect(stage.reason(stage.request(body: "")) == .payloadEmpty)
        #expect(stage.reason(stage.request(body: body(4096))) == nil)
        #expect(stage.reason(stage.request(body: body(4097))) == .payloadTooLarge)
        let voip: [String: String?] = [
            "apns-push-type": "voip", "apns-topic": "com.example.chat.voip",
        ]
        #expect(stage.reason(stage.request(voip, body: body(5120))) == nil)
        #expect(stage.reason(stage.request(voip, body: body(5121))) == .payloadTooLarge)
    }

    @Test("refuse a header that comes twice, and background with priority 10")
    func combinations() throws {
        var stage = try GatewayStage()
        let twice = stage.request(extra: [("apns-id", GatewayStage.id)])
        #expect(stage.reason(twice) == .duplicateHeaders)
        let background: [String: String?] = ["apns-push-type": "background"]
        #expect(stage.reason(stage.request(background)) == nil)
        #expect(
            stage.reason(
                stage.request(background.merging(["apns-priority": "10"]) { $1 }))
                == .badPriority)
    }

    @Test("know only the bundle ids they were given")
    func bundleIDs() throws {
        var stage = try GatewayStage()
        stage.rules.bundleIDs = ["com.example.chat"]
        #expect(stage.reason(stage.request()) == nil)
        #expect(
            stage.reason(stage.request(["apns-topic": "com.example.other"])) == .badTopic)
    }

    @Test("refuse a provider token by age, signature, key, team and environment")
    func tokens() throws {
        let stage = try GatewayStage()
        let stranger = try SigningKey()
        for (authorization, reason) in [
            (try stage.authorization(age: 3_600), nil),
            (try stage.authorization(age: 3_601), .expiredProviderToken),
            (try stage.authorization(age: -3_601), .expiredProviderToken),
            (try stage.authorization(signedBy: stranger), .invalidProviderToken),
            (try stage.authorization(key: "UNKNOWNKEY"), .invalidProviderToken),
            (try stage.authorization(team: "OTHERTEAM0"), .invalidProviderToken),
            (try stage.authorization(key: "SANDBOXKEY"), .badEnvironmentKeyIDInToken),
        ] as [(String, ProviderReason?)] {
            var stage = stage
            let request = stage.request(["authorization": authorization])
            #expect(stage.reason(request) == reason)
            // The remembered decision is the same.
            #expect(stage.reason(request) == reason)
        }
    }

    @Test("see a good token expire on an open connection")
    func expiry() throws {
        var stage = try GatewayStage()
        let request = stage.request()
        #expect(stage.reason(request, after: 3_600) == nil)
        #expect(stage.reason(request, after: 3_601) == .expiredProviderToken)
    }

    @Test("refuse a second token within 20 minutes and go on with the first")
    func renewals() throws {
        var stage = try GatewayStage()
        let first = stage.request()
        let second = try stage.request(["authorization": stage.authorization(age: 1)])
        #expect(stage.reason(first) == nil)
        #expect(stage.reason(second, after: 1_199) == .tooManyProviderTokenUpdates)
        #expect(stage.reason(first, after: 1_199) == nil)
        #expect(stage.reason(second, after: 1_200) == nil)
    }

    @Test("bind a connection to the first key and team")
    func binding() throws {
        var stage = try GatewayStage()
        #expect(stage.reason(stage.request()) == nil)
        let otherKey = try stage.request(["authorization": stage.authorization(key: "OTHERKEY00")])
        #expect(stage.reason(otherKey, after: 1_300) == .unrelatedKeyIDInToken)
        let otherTeam = try stage.request([
            "authorization": stage.authorization(key: "OTHERTEAM0", team: "OTHERTEAM0")
        ])
        #expect(stage.reason(otherTeam, after: 2_600) == .invalidProviderToken)
    }

    @Test("by certificate: its topic is the default, others are not allowed, a token is ignored")
    func certificates() throws {
        var stage = try GatewayStage()
        stage.rules.authentication = .certificate
        #expect(stage.reason(stage.request()) == .badCertificate)
        stage.credentials = GatewayCredentials(certificateTopic: "com.example.chat")
        for authorization in [nil, "bearer nonsense"] as [String?] {
            let request = stage.request([
                "authorization": authorization, "apns-topic": nil,
            ])
            #expect(stage.reason(request) == nil)
        }
        #expect(stage.reason(stage.request()) == nil)
        #expect(
            stage.reason(stage.request(["apns-topic": "com.example.other"]))
                == .topicDisallowed)
        #expect(
            stage.reason(
                stage.request([
                    "apns-push-type": "location", "apns-topic": "com.example.chat.location-query",
                ])) == .topicDisallowed)
    }
}

@Suite("The script of the provider gateway")
struct ProviderScriptTests {
    @Test("answers by token before number before share")
    func precedence() throws {
        let token = try DeviceToken(spelling: FeedbackVector.tutorialHex)
        let gone = ScriptedAction.reply(ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        var script = ProviderScript()
        script.shares = [.init(millionths: 1_000_000, action: .stall)]
        #expect(script.action(for: token, number: 2) == .stall)
        script.sequence[2] = gone
        #expect(script.action(for: token, number: 2) == gone)
        #expect(script.action(for: token, number: 3) == .stall)
        script.tokens[token] = .reset(.refusedStream)
        #expect(script.action(for: token, number: 2) == .reset(.refusedStream))
    }

    @Test("numbers valid requests only")
    func numbers() throws {
        var script = ProviderScript()
        script.sequence[2] = .stall
        var stage = try GatewayStage(script)
        let (good, bad) = (stage.request(), stage.request(body: ""))
        let actions = [good, bad, bad, good, good].map { stage.decision($0).action }
        #expect(actions.firstIndex(of: .stall) == 3)
        #expect(actions.count { $0 == .stall } == 1)
    }

    @Test("draws shares from the token: 1 % and 5 % of 100,000 tokens, the same each time")
    func shares() throws {
        let gone = ScriptedAction.reply(ScriptedReply(.unregistered, timestamp: 1_700_000_000_123))
        var script = ProviderScript()
        script.shares = [
            .init(millionths: 10_000, action: gone), .init(millionths: 50_000, action: .stall),
        ]
        // Tokens that differ in little, as counters make them.
        var counts = (gone: 0, stalled: 0)
        for index in 0..<100_000 {
            let bytes = withUnsafeBytes(of: UInt64(index).bigEndian) { Array($0) }
            let token = try #require(DeviceToken([UInt8](repeating: 0, count: 24) + bytes))
            let action = script.action(for: token, number: 1)
            #expect(action == script.action(for: token, number: index))
            if action == gone { counts.gone += 1 }
            if action == .stall { counts.stalled += 1 }
        }
        // Five standard deviations: 157 and 345.
        #expect(abs(counts.gone - 1_000) < 157)
        #expect(abs(counts.stalled - 5_000) < 345)
    }

    @Test("is read from the command line's spelling, and nothing else is")
    func spelling() throws {
        #expect(try ScriptedAction("ok") == .reply(.accepted))
        #expect(try ScriptedAction("stall") == .stall)
        #expect(try ScriptedAction("reset:7") == .reset(.refusedStream))
        #expect(
            try ScriptedAction("Unregistered@1700000000123")
                == .reply(
                    ScriptedReply(
                        status: 410,
                        body: Array(#"{"reason":"Unregistered","timestamp":1700000000123}"#.utf8))))
        #expect(
            try ScriptedAction("body:410:{\"a\":1}:x")
                == .reply(ScriptedReply(status: 410, body: Array("{\"a\":1}:x".utf8))))
        for text in [
            "", "OK", "Unregisterd", "Unregistered@", "Unregistered@x", "Unregistered@1@2",
            "reset", "reset:x", "body:99:x", "body:410", "stall:1", "ok:1",
        ] {
            #expect(throws: Refusal.self, "\(text)") { try ScriptedAction(text) }
        }
    }
}
