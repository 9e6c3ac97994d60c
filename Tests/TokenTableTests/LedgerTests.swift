import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("Change ledger")
struct LedgerTests {
    @Test(
        "the ledger has every changed row with its old values",
        arguments: TestEngine.available)
    func entries(_ engine: TestEngine) throws {
        let database = try TokenDatabase.own(engine, 1..<2)
        try database.register(.numbered(2), at: start, mark: start + 1_000)
        try database.register(.numbered(3), at: start + 90_000)
        let store = try database.store()
        try store.apply(
            (0..<5).map { .dead($0, at: start + 60_000) }, feed: "f", run: "r")
        #expect(
            try database.texts(
                "SELECT run, batch, seq, action, row_key, before_image, evidence_at, source "
                    + "FROM \(ledgerWithRuns) ORDER BY seq"
            ) == [
                [
                    "r", "f", "0", "mark", "1", "NULL", "2024-01-01 00:01:00.000", "feedback",
                ],
                [
                    "r", "f", "1", "advance", "2",
                    #"{"invalidated_at":"2024-01-01 00:00:01.000000","invalid_reason":null}"#
                        .replacing("000000", with: engine == .mariaDB ? "000000" : "000"),
                    "2024-01-01 00:01:00.000", "feedback",
                ],
            ])
    }

    @Test("large before-images are split over statements", arguments: TestEngine.available)
    func largeImages(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(64), "
                + "registered_at DATETIME, avatar \(engine == .mariaDB ? "MEDIUMBLOB" : "BLOB"))")
        for row in 0..<20 {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?)",
                [
                    .integer(Int64(row)), .text(DeviceToken.numbered(row).hex),
                    database.time(start), .bytes([UInt8](repeating: UInt8(row), count: 100_000)),
                ])
        }
        let progress = try database.store { $0.table = "devices" }.apply(
            (0..<20).map { .dead($0, at: start + 60_000) }, policy: RemovalPolicy(action: .delete))
        #expect(progress.rowsChanged == 20)
        #expect(try database.rows(of: "pushsweep_change", "LENGTH(before_image) > 200000") == 20)
    }

    @Test("a run is recorded, and its end updates the record", arguments: TestEngine.available)
    func runs(_ engine: TestEngine) throws {
        let database = try TokenDatabase.withSideTables(engine)
        let store = try database.store()
        let began = EpochMilliseconds(start)
        try store.session.record(RunRecord(id: "r", kind: "sweep", started: began, host: "h"))
        try store.session.record(
            RunRecord(
                id: "r", kind: "sweep", started: began, ended: EpochMilliseconds(start + 5),
                host: "h", operator: "ada on pts/1", counts: "{}", guardResult: "passed"))
        #expect(
            try database.texts("SELECT * FROM pushsweep_run") == [
                [
                    "r", "sweep", "2024-01-01 00:00:00.000", "2024-01-01 00:00:00.005", "h", "{}",
                    "passed", "ada on pts/1",
                ]
            ])
    }
}
