import APNsProtocol
import SecureTransport
import TokenHygiene

/// The group of an app's settings that names a gateway.
package enum GatewaySetting: String, Sendable {
    /// A gateway with the feedback protocol.
    case feedback
    /// A gateway with HTTP/2.
    case provider
    /// A gateway of the binary interface.
    case binary

    /// The settings that cure a failure, as keys; nil where no setting does.
    func keys(for code: TransportFailure.Code, of partition: Partition) -> String? {
        let app = "apps[\(partition)]"
        let key = "\(app).\(rawValue)"
        switch code {
        case .certificateUntrusted: return "\(key).ca"
        case .hostNameMismatch:
            return self == .provider ? "\(key).host" : "\(key).host-name"
        case .nameNotFound: return "\(key).host"
        case .connectionRefused, .unreachable, .notTLS, .wrongProtocol, .timedOut, .closedEarly:
            return "\(key).host, \(key).port"
        case .clientCertificateRefused: return "\(app).certificate"
        case .reset, .certificateExpired, .certificateNotYetValid, .protocolVersion,
            .protocolError, .credentialsUnusable, .interrupted, .io:
            return nil
        }
    }
}

extension RunFailure {
    /// The failure of a gateway of an app, with the settings that cure it.
    init(
        _ failure: TransportFailure, of partition: Partition, _ gateway: GatewaySetting,
        at stage: Stage
    ) {
        let keys = gateway.keys(for: failure.code, of: partition).map { " (\($0))" } ?? ""
        self.init(failure.exit, stage, "\(partition): \(failure)\(keys)")
    }

    /// The same failure, with the app in front.
    func naming(_ partition: Partition) -> RunFailure {
        RunFailure(exit, stage, "\(partition): \(description)")
    }
}

extension TLSIdentity {
    /// Whether the certificate is for a topic: it names the topic, the app of a topic with one of Apple's
    /// suffixes, or none at all.
    func covers(topic: String) -> Bool {
        let suffixes = PushType.allCases.map(\.topicSuffix)
        return topics.isEmpty
            || topics.contains { named in suffixes.contains { topic == named + $0 } }
    }
}
