import APNsProtocol
import APNsSimulator
import TestSupport
import Testing

@Suite("The connections of a sweep")
struct ConnectionsTests {
    @Test(
        "a feed is divided among as many connections as the option or the setting says",
        .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)),
        arguments: [("", [], 2), ("connections: 3", [], 3), ("connections: 3", ["4"], 4)])
    func parts(_ setting: String, _ option: [String], _ parts: Int) throws {
        let tuples = (0..<6_000).map {
            FeedbackTuple.dead($0, at: 1_700_000_000 + UInt32($0 % 1_000))
        }
        let stage = try SweepStage(.mariaDB, feeds: [.tuples(tuples)])
        stage.lines.limits = SweepStage.anyNumber
        if !setting.isEmpty { stage.lines.store += "\n  \(setting)" }
        try stage.database.register(0..<6_000, at: 1_600_000_000_000)
        let more = option.flatMap { ["--connections", $0] }
        let result = try stage.start(["sweep", "--format", "json"] + more).wait()
        #expect(result.app()["applied"] as? Int == 6_000, "\(result.error)")
        #expect(
            try stage.database.texts("SELECT COUNT(*), MAX(parts) FROM pushsweep_feed")
                == [["\(parts)", "\(parts)"]])
    }

    @Test("a number of connections that cannot be is refused", arguments: ["0", "17", "two"])
    func refused(_ number: String) throws {
        let stage = try SweepStage(.sqlite, feeds: [])
        let result = try stage.sweep("--connections", number)
        #expect(result.exit == 64 && result.error.contains("connections"), "\(result.error)")
    }
}
