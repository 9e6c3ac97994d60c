import APNsProtocol
import Encodings
import SecureTransport

// The answer of APNs to a request, without a network.
//
// A test against a gateway that accepts everything shows nothing. So a request passes the same
// checks as at Apple: method and path, credential, headers, topic, payload, token. Only then the
// script decides. Apple does not document the order of its checks; this order goes from the
// connection to the single notification. Where Apple's documents leave a case open, the reason is
// the one whose description fits best.

/// The rules by which a provider gateway answers requests.
package struct ProviderRules: Sendable {
    /// The way in which clients authenticate.
    package var authentication: ProviderAuthentication
    /// Bundle ids that exist; nil for all.
    package var bundleIDs: Set<String>?
    /// The valid numbers of bytes of a token; Apple documents no length.
    var tokenLengths = 1...100
    /// The tokens of this environment; nil for all. Any other one is a bad token here, as at Apple.
    package var known: Set<DeviceToken>?
    /// The answers to valid requests.
    package var script: ProviderScript

    /// Makes rules; without `bundleIDs` every bundle id exists.
    package init(
        authentication: ProviderAuthentication, bundleIDs: Set<String>? = nil,
        script: ProviderScript = ProviderScript()
    ) {
        self.authentication = authentication
        self.bundleIDs = bundleIDs
        self.script = script
    }

    /// The decision about one request.
    package struct Decision: Sendable, Equatable {
        /// The device token in its path; nil where it cannot be read.
        package var token: DeviceToken?
        /// Its `apns-id`, or a random one for a request without.
        package var id: APNsID
        /// The action on it.
        package var action: ScriptedAction
        /// Whether it passed all checks.
        package var isValid: Bool
    }

    /// Decides about a request. `credentials` are those of its connection. `number` returns the
    /// position of a valid request in the sequence, and is called for valid ones only. `now` is the
    /// wall clock.
    package func decision(
        on request: HTTP2ServerRequest, credentials: inout GatewayCredentials, now: EpochSeconds,
        number: () -> Int
    ) -> Decision {
        let idText = request.value("apns-id")
        let givenID = idText.flatMap { APNsID(text: $0) }
        let (token, tokenRefusal) = Self.token(request.value(":path"), tokenLengths)
        let refusal =
            Self.callRefusal(request) ?? credentialRefusal(request, &credentials, now)
            ?? (idText != nil && givenID == nil ? .badMessageID : nil)
            ?? headerRefusal(request, credentials) ?? tokenRefusal ?? foreign(token)
        let id = givenID ?? .random()
        if let refusal {
            return Decision(
                token: token, id: id, action: .reply(ScriptedReply(refusal)), isValid: false)
        }
        let action = token.map { script.action(for: $0, number: number()) } ?? script.usual
        return Decision(token: token, id: id, action: action, isValid: true)
    }

    /// The refusal of a token of the other environment, or of another app.
    private func foreign(_ token: DeviceToken?) -> ProviderReason? {
        guard let known, let token, !known.contains(token) else { return nil }
        return .badDeviceToken
    }

    // MARK: Method and path

    /// The fields that APNs reads; all others are ignored.
    private static let headers: [StaticString] = [
        ":method", ":path", "authorization", "apns-id", "apns-topic", "apns-push-type",
        "apns-priority", "apns-expiration", "apns-collapse-id",
    ]

    private static func callRefusal(_ request: HTTP2ServerRequest) -> ProviderReason? {
        if Self.headers.contains(where: { request.values($0).count > 1 }) {
            return .duplicateHeaders
        }
        guard let method = request.value(":method"), method.elementsEqual("POST".utf8) else {
            return .methodNotAllowed
        }
        let path = request.value(":path") ?? []
        guard path.starts(with: ProviderPath.prefix.utf8) else {
            // `/3/device` alone names the right service and no device.
            return path.elementsEqual(ProviderPath.prefix.utf8.dropLast())
                ? .missingDeviceToken : .badPath
        }
        let rest = path.dropFirst(ProviderPath.prefix.utf8.count)
        if rest.isEmpty {
            return .missingDeviceToken
        }
        return rest.contains(UInt8(ascii: "/")) ? .badPath : nil
    }

    private static func token(
        _ path: ArraySlice<UInt8>?, _ lengths: ClosedRange<Int>
    ) -> (DeviceToken?, ProviderReason?) {
        let text = (path ?? []).dropFirst(ProviderPath.prefix.utf8.count)
        // Plain hex only: our parser accepts more spellings from databases than APNs does.
        guard text.allSatisfy({ Hex.value(of: $0) != nil }),
            let token = try? DeviceToken(spelling: Array(text))
        else {
            return (nil, .badDeviceToken)
        }
        return (token, lengths.contains(token.count) ? nil : .badDeviceToken)
    }

    // MARK: Credential

    private func credentialRefusal(
        _ request: HTTP2ServerRequest, _ credentials: inout GatewayCredentials, _ now: EpochSeconds
    ) -> ProviderReason? {
        switch authentication {
        case .certificate:
            // With a certificate, `authorization` is ignored.
            credentials.certificateTopic == nil ? .badCertificate : nil
        case .token(let keys):
            credentials.refusal(of: request.value("authorization"), keys: keys, now: now)
        }
    }

    // MARK: Headers

    private func headerRefusal(
        _ request: HTTP2ServerRequest, _ credentials: GatewayCredentials
    ) -> ProviderReason? {
        if let text = request.value("apns-expiration"), Self.number(text) == nil {
            return .badExpirationDate
        }
        let longest = NotificationAttributes.longestCollapseID
        if let text = request.value("apns-collapse-id"), !(1...longest).contains(text.count) {
            return .badCollapseID
        }
        var type = PushType.alert
        if let text = request.value("apns-push-type") {
            guard let known = PushType(rawValue: String(decoding: text, as: UTF8.self)) else {
                return .invalidPushType
            }
            type = known
        }
        if let text = request.value("apns-priority") {
            let known = Self.number(text).flatMap(UInt8.init(exactly:))
                .flatMap(NotificationPriority.init(rawValue:))
            guard let known, !(type == .background && known == .immediate) else {
                return .badPriority
            }
        }
        if let refusal = topicRefusal(request, credentials, type) {
            return refusal
        }
        if request.body.isEmpty {
            return .payloadEmpty
        }
        return request.body.count > type.payloadLimit ? .payloadTooLarge : nil
    }

    private func topicRefusal(
        _ request: HTTP2ServerRequest, _ credentials: GatewayCredentials, _ type: PushType
    ) -> ProviderReason? {
        let own = credentials.certificateTopic
        guard let text = request.value("apns-topic") else {
            return own == nil || type.topicSuffix != "" ? .missingTopic : nil
        }
        let topic = String(decoding: text, as: UTF8.self)
        guard type.takes(topic: topic) else { return .badTopic }
        let bundleID = String(topic.dropLast(type.topicSuffix.count))
        if let bundleIDs, !bundleIDs.contains(bundleID) {
            return .badTopic
        }
        if let own, own != bundleID {
            return .topicDisallowed
        }
        // Certificates do not cover location queries.
        return own != nil && type == .location ? .topicDisallowed : nil
    }

    private static func number(_ text: ArraySlice<UInt8>) -> UInt32? {
        guard (1...10).contains(text.count),
            text.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") })
        else {
            return nil
        }
        return UInt32(String(decoding: text, as: UTF8.self))
    }
}
