import APNsProtocol
import TestSupport
import Testing

@Suite("A notification for the provider API")
struct ProviderRequestTests {
    private let bundle = "com.example.chat"

    private func attributes(
        _ bundleID: String = "com.example.chat", type: String? = nil, priority: Int? = nil,
        expiration: Int64? = nil, collapseID: String? = nil
    ) throws(RequestRefusal) -> NotificationAttributes {
        try NotificationAttributes(
            bundleID: bundleID,
            NotificationHeaders(
                pushType: type, priority: priority, expiration: expiration, collapseID: collapseID))
    }

    private func refusal(
        _ body: () throws(RequestRefusal) -> Void
    ) -> (reason: ProviderReason, words: String)? {
        do throws(RequestRefusal) { try body() } catch { return (error.reason, "\(error)") }
        return nil
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
        #expect(try attributes(type: type).topic == bundle + suffix)
        #expect(try attributes(bundle + suffix, type: type).topic == bundle + suffix)
        let kind = try #require(PushType(rawValue: type))
        #expect(kind.takes(topic: bundle + suffix) && !kind.takes(topic: suffix))
        #expect(suffix.isEmpty || !kind.takes(topic: bundle))
        #expect(PushType.allCases.count == 11)
    }

    @Test("a request carries the headers of its attributes and does not index changing values")
    func fields() throws {
        func spelled(_ attributes: NotificationAttributes) -> [String] {
            attributes.fields.map { "\($0.name)=\($0.value)\($0.isIndexed ? "" : " never")" }
        }
        #expect(
            try spelled(attributes())
                == ["apns-topic=\(bundle)", "apns-push-type=alert", "apns-priority=10"])
        #expect(
            try spelled(attributes(type: "voip", priority: 1, expiration: 0, collapseID: "a b"))
                == [
                    "apns-topic=\(bundle).voip", "apns-push-type=voip", "apns-priority=1",
                    "apns-expiration=0 never", "apns-collapse-id=a b never",
                ])
        #expect(try attributes(type: "background").priority == .conserving)
        #expect(try attributes(expiration: 1_700_000_000).expiration == 1_700_000_000)
    }

    @Test("a request that APNs would refuse is refused, with the cause and no control characters")
    func refusals() {
        let hostile = "\u{1B}[31m\r\n" + String(repeating: "ä", count: 500)
        var cases: [(ProviderReason, () throws(RequestRefusal) -> Void)] = [
            (
                .badPriority,
                { () throws(RequestRefusal) in
                    _ = try attributes(type: "background", priority: 10)
                }
            )
        ]
        for text in ["Alert", hostile] {
            cases.append(
                (.invalidPushType, { () throws(RequestRefusal) in _ = try attributes(type: text) }))
        }
        for number in [-1, 0, 2, 9, 11, 256, 266, .max] {
            cases.append(
                (
                    .badPriority,
                    { () throws(RequestRefusal) in _ = try attributes(priority: number) }
                ))
        }
        let long = [String(repeating: "x", count: 65), String(repeating: "ä", count: 33)]
        for text in long + ["", "a\nb", "a\u{0}", " a", "a ", "ä", "\u{7F}"] {
            cases.append(
                (
                    .badCollapseID,
                    { () throws(RequestRefusal) in _ = try attributes(collapseID: text) }
                ))
        }
        for text in ["", "com example", "com.example\r\nx: y", "com.exämple", "a/b", hostile] {
            cases.append(
                (
                    text.isEmpty ? .missingTopic : .badTopic,
                    { () throws(RequestRefusal) in _ = try attributes(text) }
                ))
        }
        for (reason, body) in cases {
            let refusal = refusal(body)
            #expect(refusal?.reason == reason)
            let words = refusal?.words ?? ""
            #expect(words.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } && words.count < 240)
        }
    }

    @Test("a payload has 1 to 4096 bytes, for VoIP up to 5120", arguments: PushType.allCases)
    func payloads(type: PushType) throws {
        let limit = type == .voip ? 5120 : 4096
        let attributes = try attributes(type: type.rawValue)
        for (count, reason) in [
            (0, .payloadEmpty), (1, nil), (limit, nil), (limit + 1, .payloadTooLarge),
        ] as [(Int, ProviderReason?)] {
            let refusal = refusal { () throws(RequestRefusal) in
                try attributes.checkPayload(bytes: count)
            }
            #expect(refusal?.reason == reason)
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
    private func read(_ text: String) -> APNsID? { APNsID(text: Array(text.utf8)[...]) }

    @Test("an apns-id has the same value as bytes and as a UUID, read in either case")
    func spelling() {
        let text = "6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c11"
        let id = read(text)
        #expect(id?.description == text && read(text.uppercased()) == id)
        #expect(id?.bytes.first == 0x6F && id?.bytes.last == 0x11)
    }

    @Test(
        "an apns-id is not read from any other spelling",
        arguments: [
            "", "6f1c0e0a6c0e4b7e9f5e0d8a4b0d9c11", "6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c1",
            "6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c111", "6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c1g",
            "6f1c0e0a-6c0e-4b7e-9f5e0-d8a4b0d9c11", "{6f1c0e0a-6c0e-4b7e-9f5e-0d8a4b0d9c}",
            "6f1c0e0a+6c0e+4b7e+9f5e+0d8a4b0d9c11",
        ])
    func refusals(spelling: String) { #expect(read(spelling) == nil) }

    @Test("a random apns-id is a UUID of version 4 and differs from the next one")
    func random() {
        let ids = (0..<1_000).map { _ in APNsID.random() }
        #expect(Set(ids).count == ids.count)
        for id in ids {
            let text = Array(id.description)
            #expect(text[14] == "4" && "89ab".contains(text[19]))
            #expect(read(id.description) == id)
        }
    }
}
