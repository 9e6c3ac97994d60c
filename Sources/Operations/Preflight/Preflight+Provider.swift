import APNsConnection
import APNsProtocol
import SecureTransport

// The part of `preflight` that connects to the provider, and sends one request to a token that nobody has
// where asked. APNs looks at the credential first, then at the topic, then at the token, so the answer says
// how far the request came. It cannot prove the environment: both environments refuse a made-up token in
// the same way.

extension Preflight {
    /// The limit for connecting to the provider.
    private static let greeting = Duration.seconds(10)
    /// A token has at most so many bytes today.
    private static let tokenLength = 32
    /// The limit for the answer.
    private static let patience = Duration.seconds(15)

    private typealias NoAnswer = PreflightFacts.NoAnswer

    /// Connects to the provider with the certificate or for the key, and sends one request where asked.
    mutating func examineProvider() {
        guard let target = ProviderTarget(plan.app, plan.settings.send, context) else { return }
        do throws(TransportFailure) {
            switch target.gateway {
            case .failure(let failure): facts.refusedCredential = failure
            case .success(let gateway):
                try gateway.examine(within: Self.greeting, context.interrupt)
                guard plan.probes else { return }
                // The binary interface answers a bad token by ending the connection, and says nothing of
                // certificate and topic.
                facts.probe =
                    gateway.command == nil
                    ? probe(gateway)
                    : .failure(
                        NoAnswer(
                            cause: "the binary interface has no answer that would prove "
                                + "certificate or topic"))
            }
        } catch {
            let setting: GatewaySetting = plan.app.provider == nil ? .binary : .provider
            facts.unreachable = RunFailure(error, of: target.partition, setting, at: .send)
        }
    }

    private func probe(_ provider: ProviderPlan) -> Result<ProviderAnswer, NoAnswer> {
        do {
            let bytes = (0..<Self.tokenLength).map { _ in UInt8.random(in: .min ... .max) }
            guard let token = DeviceToken(bytes) else { throw NoAnswer(cause: "no token was made") }
            let connection = try Provider(provider)
            defer { connection.stop(abruptly: true) }
            connection.submit([
                PushNotification(
                    key: 1, token: token, id: .random(),
                    headers: NotificationHeaders(expiration: 0), payload: Array(#"{"aps":{}}"#.utf8)
                )
            ])
            return .success(try answer(from: connection))
        } catch let missing as NoAnswer {
            return .failure(missing)
        } catch {
            return .failure(NoAnswer(cause: "\(error)"))
        }
    }

    private func answer(from connection: Provider) throws(NoAnswer) -> ProviderAnswer {
        let deadline = Deadline.in(Self.patience)
        while !deadline.hasPassed, !context.interrupt.isTripped {
            if let outcome = connection.outcomes(within: 100).first {
                switch outcome.kind {
                case .answered(let answer): return answer
                case .unknown(let cause), .garbled(let cause), .unsendable(let cause):
                    throw NoAnswer(cause: cause)
                case .refused, .untouched, .accepted, .refusedBinary:
                    throw NoAnswer(cause: "the gateway did not take the request")
                }
            }
            if let failure = connection.failure { throw NoAnswer(cause: failure.description) }
        }
        throw NoAnswer(cause: "no answer within \(Self.patience)")
    }
}
