import APNsConnection
import APNsProtocol
import Encodings
import Operations
import SecureTransport

// The part of `preflight` that connects to the provider, and sends one request to a token that nobody has
// where asked. APNs looks at the credential first, then at the topic, then at the token, so the answer says
// how far the request came. It cannot prove the environment: both environments refuse a made-up token in
// the same way.

extension Preflight {
    /// A token has at most so many bytes today.
    private static let tokenLength = 32
    /// The limit for the answer.
    private static let patience = Duration.seconds(15)

    /// Connects to the provider with the certificate or for the key, and sends one request where asked.
    mutating func examineProvider() {
        guard let reached = GatewayFacts.reached(plan.app, plan.settings, context) else { return }
        var gateway = reached.facts
        if plan.probes, let target = reached.plan {
            // The binary interface answers a bad token by ending the connection, and says nothing of
            // certificate and topic.
            gateway.probe =
                target.command == nil
                ? probe(target)
                : .failure(
                    Refusal(
                        "the binary interface has no answer that would prove certificate or topic"))
        }
        facts.gateways = [gateway]
    }

    private func probe(_ provider: ProviderPlan) -> Result<ProviderAnswer, Refusal> {
        do {
            let bytes = (0..<Self.tokenLength).map { _ in UInt8.random(in: .min ... .max) }
            guard let token = DeviceToken(bytes) else { throw Refusal("no token was made") }
            let connection = try Provider(provider)
            defer { connection.stop(abruptly: true) }
            connection.submit([
                PushNotification(
                    key: 1, token: token, id: .random(),
                    headers: NotificationHeaders(expiration: 0), payload: Array(#"{"aps":{}}"#.utf8)
                )
            ])
            return .success(try answer(from: connection))
        } catch let missing as Refusal {
            return .failure(missing)
        } catch {
            return .failure(Refusal("\(error)"))
        }
    }

    private func answer(from connection: Provider) throws(Refusal) -> ProviderAnswer {
        let deadline = Deadline.in(Self.patience)
        while !deadline.hasPassed, !context.interrupt.isTripped {
            if let outcome = connection.outcomes(within: 100).first {
                switch outcome.kind {
                case .answered(let answer): return answer
                case .unknown(let cause), .garbled(let cause), .unsendable(let cause):
                    throw Refusal(cause)
                case .refused, .untouched, .accepted, .refusedBinary:
                    throw Refusal("the gateway did not take the request")
                }
            }
            if let failure = connection.failure { throw Refusal(failure.description) }
        }
        throw Refusal("no answer within \(Self.patience)")
    }
}
