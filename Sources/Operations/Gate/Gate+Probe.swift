import APNsConnection
import APNsProtocol
import SecureTransport

// One request to a token that nobody has. APNs looks at the credential first, then at the topic, then at
// the token, so the answer says how far the request came. It cannot prove the environment: both
// environments refuse a made-up token in the same way.

extension Gate {
    /// A token has at most so many bytes today.
    private static let tokenLength = 32
    /// The limit for the answer.
    private static let patience = Duration.seconds(15)

    /// Sends one notification to a made-up token and judges the answer.
    mutating func probe(_ provider: ProviderPlan, _ object: String) {
        switch answer(of: provider) {
        case .failure(let failure):
            report.probe = GateReport.Probe(reason: failure.cause)
            addInconclusive(object, failure.cause)
        case .success(let answer):
            var probe = GateReport.Probe(
                status: answer.status, reason: answer.body.reason?.description)
            judge(answer, &probe, object)
            report.probe = probe
        }
    }

    /// Says that a gateway of the binary interface cannot be probed: it answers each bad token by
    /// ending the connection, and says nothing about certificate and topic.
    mutating func refuseProbe(_ object: String) {
        let cause = "the binary interface has no answer that would prove certificate or topic"
        report.probe = GateReport.Probe(reason: cause)
        addInconclusive(object, cause)
    }

    private struct NoAnswer: Error {
        let cause: String
    }

    private func answer(
        of provider: ProviderPlan
    ) -> Result<ProviderAnswer, NoAnswer> {
        let bytes = (0..<Self.tokenLength).map { _ in UInt8.random(in: .min ... .max) }
        let connection: Provider
        do throws(TransportFailure) {
            connection = try Provider(provider)
        } catch {
            return .failure(NoAnswer(cause: error.description))
        }
        defer { connection.stop(abruptly: true) }
        guard let token = DeviceToken(bytes) else {
            return .failure(NoAnswer(cause: "no token was made"))
        }
        connection.submit([
            PushNotification(
                key: 1, token: token, id: .random(), headers: NotificationHeaders(expiration: 0),
                payload: Array(#"{"aps":{}}"#.utf8))
        ])
        return answer(from: connection)
    }

    private func answer(from connection: Provider) -> Result<ProviderAnswer, NoAnswer> {
        let deadline = Deadline.in(Self.patience)
        while !deadline.hasPassed, !context.interrupt.isTripped {
            if let outcome = connection.outcomes(within: 100).first {
                return Self.answer(in: outcome)
            }
            if let failure = connection.failure {
                return .failure(NoAnswer(cause: failure.description))
            }
        }
        return .failure(NoAnswer(cause: "no answer within \(Self.patience)"))
    }

    private static func answer(
        in outcome: ProviderOutcome
    ) -> Result<ProviderAnswer, NoAnswer> {
        switch outcome.kind {
        case .answered(let answer): .success(answer)
        case .unknown(let cause), .garbled(let cause), .unsendable(let cause):
            .failure(NoAnswer(cause: cause))
        case .refused, .untouched, .accepted, .refusedBinary:
            .failure(NoAnswer(cause: "the gateway did not take the request"))
        }
    }

    private mutating func judge(
        _ answer: ProviderAnswer, _ probe: inout GateReport.Probe, _ object: String
    ) {
        let words =
            "the provider answered \(answer.status)"
            + (answer.body.reason.map { " \($0)" } ?? "") + " to a made-up token"
        let key = "apps[\(plan.partition)]"
        switch answer.meaning {
        case .suspectToken where answer.body.reason == .badDeviceToken:
            probe.proves = ["credential", "topic"]
        case .suspectToken: probe.proves = ["credential"]
        case .credentialFault:
            add(
                .probeCredential, .high, object, words,
                cure: "correct \(key).certificate or \(key).token-key, and this host's clock")
        case .configurationFault:
            probe.proves = ["credential"]
            add(
                .probeTopic, .high, object, "\(words) for the topic \(plan.app.topic)",
                cure: "correct \(key).topic, or use a credential for this topic")
        default: addInconclusive(object, words)
        }
    }

    private mutating func addInconclusive(_ object: String, _ message: String) {
        add(
            .probeInconclusive, .medium, object, message,
            cure: "run again; a gateway that accepts any token proves nothing")
    }
}
