import APNsProtocol
import TestSupport
import Testing

@Suite("A notification for the provider API")
struct ProviderRequestTests {
    private let bundle = "com.example.chat"

    private func attributes(
        type: String? = nil, priority: Int? = nil, expiration: UInt32? = nil,
        collapseID: String? = nil
    ) throws(RequestRefusal) -> NotificationAttributes {
        try NotificationAttributes(
            bundleID: bundle,
            NotificationHeaders(
                pushType: type, priority: priority, expiration: expiration.map(Int64.init),
                collapseID: collapseID))
    }

    @Test(
        "a notification of each push type has the topic with the suffix of that type",
        arguments: [
            ("alert", ""), ("background", ""), ("complication", ".complication"),
            ("controls", ".push-type.controls"), ("fileprovider", ".pushkit.fileprovider"),
            ("liveactivity", ".push-type.liveactivity"), ("location", ".location-query"),
            ("mdm", ""), ("pushtotalk", ".voip-ptt"), ("voip", ".voip"),
            ("widgets", ".push-type.widgets"),
        ])
    func suffixes(type: String, suffix: String) throws {
        #expect(try attributes(type: type).topic.description == bundle + suffix)
        #expect(PushType.allCases.count == 11)
        let kind = try #require(PushType(rawValue: type))
        #expect(try APNsTopic(bundleID: bundle + suffix, for: kind).description == bundle + suffix)
    }

    @Test("a request carries the headers of its attributes and does not index changing values")
    func fields() throws {
        #expect(
            try attributes().fields == [
                ProviderField("apns-topic", bundle), ProviderField("apns-push-type", "alert"),
                ProviderField("apns-priority", "10"),
            ])
        #expect(
            try attributes(type: "voip", priority: 1, expiration: 0, collapseID: "a b").fields == [
                ProviderField("apns-topic", bundle + ".voip"),
                ProviderField("apns-push-type", "voip"), ProviderField("apns-priority", "1"),
                ProviderField("apns-expiration", "0", isIndexed: false),
                ProviderField("apns-collapse-id", "a b", isIndexed: false),
            ])
        #expect(try attributes(type: "background").priority == .conserving)
        #expect(
            try attributes(expiration: 1_700_000_000).expiration
                == .until(EpochSeconds(1_700_000_000)))
    }

    @Test("a request that APNs would refuse is refused, with the cause")
    func refusals() {
        #expect(throws: RequestRefusal.immediateBackground) {
            try attributes(type: "background", priority: 10)
        }
        #expect(throws: RequestRefusal.unknownPushType("Alert")) { try attributes(type: "Alert") }
        for number in [-1, 0, 2, 9, 11, 256, 266, .max] {
            #expect(throws: RequestRefusal.unknownPriority(number)) {
                try attributes(priority: number)
            }
        }
        #expect(throws: RequestRefusal.collapseIDTooLong(bytes: 65)) {
            try attributes(collapseID: String(repeating: "x", count: 65))
        }
        #expect(throws: RequestRefusal.collapseIDTooLong(bytes: 66)) {
            try attributes(collapseID: String(repeating: "ä", count: 33))
        }
        #expect(throws: RequestRefusal.emptyCollapseID) { try attributes(collapseID: "") }
        for text in ["a\nb", "a\u{0}", " a", "a ", "ä", "\u{7F}"] {
            #expect(throws: RequestRefusal.unprintableCollapseID) {
                try attributes(collapseID: text)
            }
        }
        #expect(throws: RequestRefusal.emptyTopic) { try APNsTopic("") }
        for text in ["com example", "com.example\r\nx: y", "com.exämple", "a/b"] {
            #expect(throws: RequestRefusal.malformedTopic(text)) { try APNsTopic(text) }
        }
        #expect(
            throws: RequestRefusal.topicWithoutSuffix(topic: bundle, suffix: ".voip")
        ) {
            try NotificationAttributes(topic: APNsTopic(bundle), type: .voip)
        }
        #expect(throws: RequestRefusal.topicWithoutSuffix(topic: ".voip", suffix: ".voip")) {
            try NotificationAttributes(topic: APNsTopic(".voip"), type: .voip)
        }
    }

    @Test("a payload has 1 to 4096 bytes, for VoIP up to 5120", arguments: PushType.allCases)
    func payloads(type: PushType) throws {
        let limit = type == .voip ? 5120 : 4096
        let attributes = try attributes(type: type.rawValue)
        try attributes.checkPayload(bytes: 1)
        try attributes.checkPayload(bytes: limit)
        #expect(throws: RequestRefusal.payloadTooLarge(bytes: limit + 1, limit: limit)) {
            try attributes.checkPayload(bytes: limit + 1)
        }
        #expect(throws: RequestRefusal.emptyPayload) { try attributes.checkPayload(bytes: 0) }
    }

    @Test("a refusal has no control characters, whatever the queue holds")
    func messages() {
        let hostile = "\u{1B}[31m\r\n" + String(repeating: "ä", count: 500)
        for refusal in [
            RequestRefusal.unknownPushType(hostile), .malformedTopic(hostile),
        ] {
            #expect(refusal.description.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F })
            #expect(refusal.description.count < 240)
        }
    }

    @Test("the path is /3/device/ and the lower-case hex of a token of any length")
    func paths() throws {
        var random = SeededGenerator("paths")
        for count in [1, 8, 31, 32, 33, 54, 80, 100, 2_000] {
            let token = try #require(DeviceToken(random.bytes(count)))
            var buffer = [UInt8](repeating: 0xFF, count: ProviderPath.length(of: token) + 3)
            let written = buffer.withUnsafeMutableBytes { ProviderPath.write(token, into: $0) }
            #expect(written == ProviderPath.length(of: token))
            #expect(String(decoding: buffer[..<written], as: UTF8.self) == "/3/device/\(token.hex)")
            #expect(buffer[written...].allSatisfy { $0 == 0xFF })
        }
    }
}

@Suite("An apns-id")
struct APNsIDTests {
    private let text = "6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c11"

    @Test("an apns-id has the same value as bytes and as a lower-case UUID")
    func spelling() throws {
        let id = try #require(APNsID(text: text))
        #expect(id.description == text)
        #expect(APNsID(bytes: id.bytes) == id)
        #expect(id.bytes.first == 0x6F && id.bytes.last == 0x11)
        var random = SeededGenerator("apns-ids")
        for _ in 0..<1_000 {
            let bytes = random.bytes(16)
            let id = try #require(APNsID(bytes: bytes))
            #expect(id.bytes == bytes)
            #expect(APNsID(text: id.description) == id)
        }
    }

    @Test(
        "an apns-id is not read from any other spelling",
        arguments: [
            "", "6f1c0e0a6c0e4b7e9f5e0d8a4b0d9c11", "6F1C0E0A-6C0E-4B7E-9F5E-0D8A4B0D9C11",
            "6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c1", "6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c111",
            "6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c1g", "6f1c0e0a-6c0e-4b7e-9f5e0-d8a4b0d9c11",
            "{6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c}", "6f1c0e0a+6c0e+4b7e+9f5e+0d8a4b0d9c11",
        ])
    func refusals(spelling: String) {
        #expect(APNsID(text: spelling) == nil)
    }

    @Test("an apns-id in upper case is read where that is allowed")
    func anyCase() {
        let id = APNsID(text: text.uppercased(), anyCase: true)
        #expect(id?.description == text)
    }

    @Test("an apns-id of 15 or 17 bytes does not exist")
    func sizes() {
        for count in [0, 15, 17] {
            #expect(APNsID(bytes: [UInt8](repeating: 1, count: count)) == nil)
        }
    }

    @Test("a random apns-id is a UUID of version 4 and differs from the next one")
    func random() {
        var random = SeededGenerator("random apns-ids")
        let ids = (0..<1_000).map { _ in APNsID.random(using: &random) }
        #expect(Set(ids).count == ids.count)
        for id in ids {
            let text = Array(id.description)
            #expect(text[14] == "4")
            #expect("89ab".contains(text[19]))
        }
    }
}
