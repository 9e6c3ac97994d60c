import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000

@Suite("The command send over the binary interface")
struct SendBinaryTests {
    private static func stage(
        _ engine: TestEngine = .sqlite, _ rows: Int, _ rules: BinaryRules,
        _ more: String = "error-wait: 300ms", dead: DeadTokens = DeadTokens()
    ) throws -> (SendStage, BinaryGateway) {
        let stage = try SendStage(engine)
        let gateway = try BinaryGateway(
            certificates: SweepStage.certificates.get(), rules: rules, dead: dead)
        try stage.use(gateway, more)
        try stage.database.register(0..<rows, at: registered)
        try stage.queue(0..<rows)
        return (stage, gateway)
    }

    @Test(
        "send delivers once, skips stale tokens, and never removes a token for status 8",
        arguments: TestEngine.available)
    func story(_ engine: TestEngine) throws {
        var rules = BinaryRules()
        rules.script.tokens[.numbered(20)] = .reject(.invalidToken)
        rules.script.tokens[.numbered(60)] = .reject(.invalidToken, delay: .frames(15))
        rules.script.tokens[.numbered(80)] = .reject(.shutdown)
        rules.packetPiece = 1
        let (stage, gateway) = try Self.stage(engine, 100, rules)
        try stage.database.register(.numbered(100), at: registered, mark: registered + 5_000)
        try stage.queue(100...101)

        let result = try stage.send().ends(0)
        let app = result.app()
        #expect(app["sent"] as? Int == 98)
        #expect(app["rejected"] as? [String: Int] == ["invalid token (8)": 2])
        #expect(app["skipped"] as? [String: Int] == ["stale": 1, "unknown": 1])
        #expect(try stage.states() == ["sent": 98, "failed": 2, "skipped": 2])
        #expect(try stage.rowsAgainst(gateway.log) == [])
        #expect(try stage.database.marked == 1)
        #expect(gateway.log.acceptedByToken[.numbered(100)] == nil)
    }

    @Test("status 8 for all tokens is told as a wrong environment, and the rows wait")
    func wrongEnvironment() throws {
        var rules = BinaryRules()
        rules.known = []
        let (stage, gateway) = try Self.stage(.sqlite, 8, rules)
        try stage.send().ends(78, "environment mismatch suspected")
        #expect(try stage.states() == ["retry": 8])
        #expect(gateway.log.totals.rejected == ["8": 8], "\(gateway.log.totals)")
    }

    @Test(
        "a closed port, a refused certificate and an HTTP/2 gateway are named, and no row is lost")
    func wrongGateways() throws {
        let certificates = try SweepStage.certificates.get()
        let refusing = try BinaryGateway(certificates: certificates, refusesClients: true)
        let (stage, _) = try Self.stage(.sqlite, 5, BinaryRules())
        for (port, exit, words) in [
            (1, 69, "refused"), (refusing.port, 78, "certificate"),
        ] as [(UInt16, Int32, String)] {
            stage.binary =
                "binary: {host: 127.0.0.1, port: \(port), ca: \(certificates.authority), "
                + "error-wait: 300ms}"
            let result = try stage.send().ends(exit)
            #expect(result.error.lowercased().contains(words), "\(result.error)")
            #expect(try stage.states() == ["pending": 5])
        }
        stage.binary =
            "binary: {host: 127.0.0.1, port: \(stage.gateway.port), ca: \(certificates.authority)}"
        try stage.run("check").ends(78, "speaks HTTP/2")
    }

    @Test("check says that the gateway listens, without a complete handshake")
    func check() throws {
        let (stage, gateway) = try Self.stage(.sqlite, 1, BinaryRules())
        try stage.run("check").ends(0, "with command 2; the gateway listens")
        #expect(gateway.log.connections(atLeast: 1).allSatisfy { $0.subject == nil })
    }
}
