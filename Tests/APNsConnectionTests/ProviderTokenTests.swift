import APNsConnection
import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import Synchronization
import TestSupport
import Testing

/// Two clocks that the test moves.
private final class TestClocks: Sendable {
    private let state = Mutex(
        (monotonic: ContinuousClock.now, wall: EpochSeconds(1_700_000_000)))

    var monotonic: ContinuousClock.Instant { state.withLock { $0.monotonic } }
    var wall: EpochSeconds { state.withLock { $0.wall } }

    /// Moves both clocks; the wall clock can be set in addition.
    func advance(minutes: Int, settingWallBy seconds: Int64 = 0) {
        state.withLock { state in
            state.monotonic += .seconds(minutes * 60)
            let wall = Int64(state.wall.rawValue) + Int64(minutes) * 60 + seconds
            state.wall = EpochSeconds(UInt32(wall))
        }
    }
}

@Suite("A provider token")
struct ProviderTokenTests {
    private let key: SigningKey
    private let clocks = TestClocks()
    private let source: ProviderTokenSource

    init() throws {
        key = try SigningKey()
        source = try Self.source(key, clocks)
    }

    private static func source(
        _ key: SigningKey, _ clocks: TestClocks, keyID: String = "ABC123DEFG",
        teamID: String = "DEF123GHIJ"
    ) throws(RequestRefusal) -> ProviderTokenSource {
        try ProviderTokenSource(
            key: key, keyID: keyID, teamID: teamID, wall: { clocks.wall },
            monotonic: { clocks.monotonic })
    }

    private func issued(_ token: ProviderToken) -> UInt32? {
        ReceivedProviderToken(text(token))?.claims.issuedAt.rawValue
    }

    private func text(_ token: ProviderToken) -> [UInt8] {
        Array(token.authorization.dropFirst("bearer ".count).utf8)
    }

    @Test("a token is the agreed signing input and a signature of 64 bytes that its key verifies")
    func content() throws {
        let token = try source.token()
        #expect(token.authorization.hasPrefix("bearer "))
        let text = text(token)
        let vector =
            "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ"
            + ".eyJpc3MiOiJERUYxMjNHSElKIiwiaWF0IjoxNzAwMDAwMDAwfQ"
        #expect(text.starts(with: vector.utf8))
        let received = try #require(ReceivedProviderToken(text))
        #expect(received.signature.count == 64)
        #expect(received.signingInput == Array(vector.utf8))
        #expect(key.verificationKey.verifies(received.signature, of: received.signingInput))
        #expect(issued(token) == 1_700_000_000)
    }

    @Test(
        "every call gets the same text until 50 minutes have passed, whatever the wall clock does",
        arguments: [0, 100_000, -100_000] as [Int64])
    func renewal(jump: Int64) throws {
        let first = try source.token()
        clocks.advance(minutes: 49, settingWallBy: jump)
        #expect(try source.token() == first)
        clocks.advance(minutes: 1)
        let second = try source.token()
        #expect(second.serial == first.serial + 1)
        #expect(issued(second) == UInt32(1_700_000_000 + 50 * 60 + jump))
        #expect(second.authorization != first.authorization)
    }

    @Test("a token called expired after 20 minutes is renewed once, however many answers say so")
    func expired() throws {
        let first = try source.token()
        clocks.advance(minutes: 20)
        let second = try source.token(afterExpiryOf: first, serverTime: nil)
        #expect(second.serial == 2)
        #expect(try source.token(afterExpiryOf: first, serverTime: nil) == second)
        #expect(try source.token() == second)
    }

    @Test(
        "after a pause of the machine that only the wall clock shows, an expired token is renewed once"
    )
    func pausedMachine() throws {
        let first = try source.token()
        clocks.advance(minutes: 1, settingWallBy: 7_200)
        #expect(try source.token() == first, "a clock that is set renews nothing by itself")
        let second = try source.token(afterExpiryOf: first, serverTime: nil)
        #expect(second.serial == 2 && issued(second) == 1_700_007_260)
        #expect(throws: ProviderFailure.self) {
            try source.token(afterExpiryOf: second, serverTime: nil)
        }
    }

    @Test("an earlier \"expired\" means a wrong clock: both times are named, nothing is renewed")
    func clockFault() throws {
        let first = try source.token()
        clocks.advance(minutes: 19)
        let fault = #expect(throws: ProviderFailure.self) {
            try source.token(
                afterExpiryOf: first, serverTime: EpochSeconds(1_700_007_200))
        }
        let message = fault?.description ?? ""
        #expect(message.contains("2023-11-14T22:32:20Z"))
        #expect(message.contains("2023-11-15T00:13:20Z"))
        #expect(!message.contains(first.authorization.suffix(40)))
        #expect(try source.token() == first)
        #expect(throws: ProviderFailure.self) {
            try source.token(afterExpiryOf: first, serverTime: nil)
        }
    }

    @Test(
        "invalid ids give no token",
        arguments: [
            "", "ABC123DEF", "ABC123DEFGH", "abc123defg", "ABC123DEF\"", "ÄBC123DEF",
        ])
    func identifiers(text: String) {
        let ofKey = #expect(throws: RequestRefusal.self) {
            try Self.source(key, clocks, keyID: text)
        }
        #expect(ofKey?.description.contains("is no key id") == true)
        let ofTeam = #expect(throws: RequestRefusal.self) {
            try Self.source(key, clocks, teamID: text)
        }
        #expect(ofTeam?.description.contains("is no team id") == true)
    }

    @Test("eight threads that ask at once cause one signature")
    func threads() throws {
        let seen = Mutex<Set<ProviderToken>>([])
        let source = source
        let threads = try (0..<8).map { _ in
            try WorkerThread {
                for _ in 0..<100 {
                    if let token = try? source.token() {
                        seen.withLock { _ = $0.insert(token) }
                    }
                }
            }
        }
        threads.forEach { $0.join() }
        #expect(seen.withLock { $0.count } == 1)
    }
}
