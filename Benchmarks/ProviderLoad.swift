import APNsConnection
import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport

/// The provider on top of the session, sending to nghttpd: a thousand tokens in rotation, and a
/// separate apns-id for every notification. 2 % of the tokens have no file, so their answer is a 404
/// with a body.
struct ProviderLoad {
    private static let tokens = 1_000
    private static let oneInSoMany = 50
    /// The number of notifications that a sender hands over at once.
    private static let batch = 1_000

    private let plan: ProviderPlan
    private let payload: [UInt8]

    /// Prepares to send to a port. `root` is the server's folder, which gets a file for each token.
    init(port: UInt16, authority: String, root: String, payload: String) throws {
        let folder = root + "/3/device"
        if !FileManager.default.fileExists(atPath: folder) {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true)
            for number in 0..<Self.tokens where number % Self.oneInSoMany != 0 {
                try Data().write(to: URL(fileURLWithPath: folder + "/" + Self.token(number).hex))
            }
        }
        let wall: @Sendable () -> EpochSeconds = {
            EpochSeconds(UInt32(clamping: Int64(Date().timeIntervalSince1970)))
        }
        let tokens = try ProviderTokenSource(
            key: SigningKey(), keyID: "ABC123DEFG", teamID: "DEF123GHIJ", wall: wall)
        plan = ProviderPlan(
            .http2(tokens, connections: 1), host: "127.0.0.1", port: port,
            topic: "com.example.chat",
            context: try TLSClientContext(trust: .file(authority), alpn: ["h2"]), now: wall)
        self.payload = Array(payload.utf8)
    }

    private static func token(_ number: Int) -> DeviceToken {
        var bytes = [UInt8](repeating: 0x77, count: 32)
        bytes[30] = UInt8(number >> 8)
        bytes[31] = UInt8(number & 0xFF)
        guard let token = DeviceToken(bytes) else { preconditionFailure("32 bytes are a token") }
        return token
    }

    /// Sends a number of notifications and checks their answers. Returns the CPU seconds of this
    /// process.
    func send(_ count: Int) throws -> Double {
        let began = processorTime()
        let provider = try Provider(plan)
        var (given, answered, refused) = (0, 0, 0)
        while answered < count {
            if given - answered < Self.batch, given < count {
                let next = min(given + Self.batch, count)
                provider.submit((given..<next).map(item))
                given = next
            }
            for outcome in provider.outcomes(within: 1_000) {
                guard case .answered(let answer) = outcome.kind else {
                    throw BenchmarkFailure(description: "\(outcome.kind)")
                }
                answered += 1
                if answer.status != 200 { refused += 1 }
            }
            if let failure = provider.failure { throw failure }
        }
        provider.stop()
        guard refused == (count + Self.oneInSoMany - 1) / Self.oneInSoMany else {
            throw BenchmarkFailure(description: "\(refused) refusals of \(count)")
        }
        return processorTime() - began
    }

    private func item(_ number: Int) -> PushNotification {
        PushNotification(
            key: UInt64(number), token: Self.token(number % Self.tokens),
            id: APNsID(high: 0x0123_4567_89AB_4DEF, low: 0x8000_0000_0000_0000 | UInt64(number)),
            headers: NotificationHeaders(priority: 10, expiration: 0), payload: payload)
    }
}
