import APNsProtocol
import APNsSimulator
import Database
import Foundation
import Glibc
import TestSupport
import Testing

@Suite("A sender of several apps")
struct SendSeveralAppsTests {
    /// Adds an app with a gateway at a port, before the app of the stage, and ten notifications of it.
    private static func add(_ app: String, at port: Int, to stage: SendStage) throws {
        let certificates = try SweepStage.certificates.get()
        stage.appsBefore += """
              - name: \(app)
                topic: com.example.chat
                environment: production
                \(stage.credential)
                provider: {host: 127.0.0.1, port: \(port), ca: \(certificates.authority)}

            """
        for number in 0..<10 {
            try stage.database.execute(
                "INSERT INTO active_users (user_id, app_id, environment, device_token, registered_at) "
                    + "SELECT '\(app)\(number)', '\(app)', environment, device_token, registered_at FROM active_users "
                    + "WHERE app_id = 'chat' AND device_token = ?",
                [.bytes(DeviceToken.numbered(number).bytes)])
            try stage.database.execute(
                "INSERT INTO push_queue (app_id, environment, device_token, payload, queued_at) "
                    + "SELECT '\(app)', environment, device_token, payload, queued_at FROM push_queue "
                    + "WHERE app_id = 'chat' AND device_token = ?",
                [.bytes(DeviceToken.numbered(number).bytes)])
        }
    }

    @Test(
        "one whose gateway says nothing, before or after the handshake, delays no other app",
        arguments: [false, true])
    func silent(isConnected: Bool) throws {
        let stage = try SendStage(rows: 200, lines: "send: {request-timeout: 20s}")
        var mute = ProviderScript()
        mute.usual = .stall
        let gateway = try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .certificate, script: mute))
        let server = try SilentServer(saying: [])
        try Self.add("aaa", at: isConnected ? Int(gateway.port) : server.port, to: stage)
        let running = try stage.start(["send", "--format", "json"])
        // A silent peer has 10 s for the handshake, and one that is connected 20 s for an answer.
        let begun = Date()
        eventually { stage.gateway.log.totals.requests == 200 }
        #expect(Date().timeIntervalSince(begun) < 9)
        if isConnected { eventually { gateway.log.totals.requests >= 3 } }
        running.signal(SIGTERM)
        let result = running.wait()
        #expect(result.exit == 75)
        #expect(try stage.states()["sent"] == 200)
        let rows = try stage.database.texts(
            "SELECT state, COUNT(*) FROM push_queue WHERE app_id = 'aaa' GROUP BY state")
        let waiting = rows.first { $0[0] == "pending" }.map { Int($0[1]) ?? 0 } ?? 0
        #expect(waiting == (isConnected ? 7 : 10), "\(rows)")
    }

    @Test("a busy app keeps no other one waiting")
    func busy() throws {
        let stage = try SendStage(rows: 10)
        let gateway = try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .certificate))
        try Self.add("aaa", at: Int(gateway.port), to: stage)
        try stage.database.sql.begin()
        for number in 100..<2_090 {
            let token = SQLValue.bytes(DeviceToken.numbered(number).bytes)
            try stage.database.execute(
                "INSERT INTO active_users (user_id, app_id, environment, device_token, registered_at) "
                    + "VALUES ('aaa\(number)', 'aaa', 'production', ?, '2024-01-01 00:00:00.000')",
                [token])
            try stage.database.execute(
                "INSERT INTO push_queue (app_id, environment, device_token, payload) "
                    + "VALUES ('aaa', 'production', ?, '{}')", [token])
        }
        try stage.database.sql.commit()
        // Five seconds of work for the one, which comes first.
        let running = try stage.start(["send", "--rate", "400"])
        eventually { stage.gateway.log.totals.requests == 10 }
        #expect(gateway.log.totals.requests < 1_500)
        #expect(running.wait().exit == 0)
        #expect(try stage.states() == ["sent": 2_010])
    }

    @Test("each app of a run that is told to stop has its grace at the same time")
    func stops() throws {
        var mute = ProviderScript()
        mute.usual = .stall
        let stage = try SendStage(
            rows: 20, script: mute, lines: "send: {request-timeout: 60s}")
        var gateways: [ProviderGateway] = []
        for app in ["aaa", "bbb", "ccc"] {
            let gateway = try ProviderGateway(
                certificates: SweepStage.certificates.get(),
                rules: ProviderRules(authentication: .certificate, script: mute))
            gateways.append(gateway)
            try Self.add(app, at: Int(gateway.port), to: stage)
        }
        let running = try stage.start(["send", "--format", "json"])
        eventually { stage.gateway.log.totals.requests == 3 }
        eventually { gateways.allSatisfy { $0.log.totals.requests == 3 } }
        let told = Date()
        running.signal(SIGTERM)
        #expect(running.wait().exit == 75)
        // Four graces of three seconds one after the other would be twelve.
        #expect(Date().timeIntervalSince(told) < 9)
        #expect(try stage.states() == ["unknown": 12, "pending": 38])
    }
}
