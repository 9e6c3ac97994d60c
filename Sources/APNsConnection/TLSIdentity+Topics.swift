import APNsProtocol
import SecureTransport

extension TLSIdentity {
    /// Whether the certificate is for a topic: it names the topic, the app of a topic with one of Apple's
    /// suffixes, or none at all.
    package func covers(topic: String) -> Bool {
        let suffixes = PushType.allCases.map(\.topicSuffix)
        return topics.isEmpty
            || topics.contains { named in suffixes.contains { topic == named + $0 } }
    }
}
