import Foundation
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

// A column that says whether a row is one of Apple's decides which devices are judged. It is compared byte by byte
// here, and a collation of the table must not change that.

@Suite("Generated columns that tell Apple's rows")
struct TellingColumnTests {
    private static func database(
        _ engine: TestEngine, _ type: String = "VARCHAR(40)", _ word: (Device) -> String
    ) throws -> TokenDatabase {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, token VARCHAR(255), platform \(type), "
                + "registered_at DATETIME)" + (engine == .mariaDB ? " CHARACTER SET utf8mb4" : ""))
        for device in Device.some(180, mixed: true) {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?)",
                [
                    .integer(Int64(device.number)), .text(device.token), .text(word(device)),
                    .text(device.time),
                ])
        }
        return database
    }

    private static func question(_ database: TokenDatabase) throws -> MappingProposal.Line? {
        try #require(try database.firstLook().1).questions.first { $0.part == .platform }
    }

    @Test(
        "takes a word in the case that Apple's rows have, and no other word around it",
        arguments: TestEngine.available)
    func word(_ engine: TestEngine) throws {
        let others = ["Android Kiosk", "ANDROID BIOS", "android i OS"]
        let database = try Self.database(engine) {
            $0.isApple
                ? "iOS \(10 + $0.number % 9).\($0.number)" : "\(others[$0.number % 3]) \($0.number)"
        }
        let line = try #require(try Self.question(database))
        #expect(line.setting == "{column: is_apple, value: 1}")
        try database.execute(try #require(line.statement))
        let made = try database.texts("SELECT is_apple FROM devices ORDER BY id")
        #expect(made == Device.some(180, mixed: true).map { [$0.isApple ? "1" : "0"] })
    }

    @Test(
        "is not printed where a row of another platform would count",
        arguments: TestEngine.available)
    func refused(_ engine: TestEngine) throws {
        // The word stands inside of another one, which no search within a text tells apart.
        let database = try Self.database(engine) {
            "\($0.isApple ? "iOS" : $0.number == 90 ? "androidiOSx" : "android") \($0.number)"
        }
        let line = try #require(try Self.question(database))
        #expect(line.statement == nil && line.setting == nil, "\(line)")
    }

    @Test(
        "takes exactly the words of Apple's rows, under any collation",
        arguments: TestEngine.available)
    func words(_ engine: TestEngine) throws {
        let mine = ["ios", "iPad"]
        let others = ["IOS-emul", "IOS", "ipad"]
        let type = engine == .sqlite ? "VARCHAR(40) COLLATE NOCASE" : "VARCHAR(40)"
        let database = try Self.database(engine, type) {
            $0.isApple ? mine[$0.number % 3 == 1 ? 0 : 1] : others[$0.number / 3 % 3]
        }
        let line = try #require(try Self.question(database))
        #expect(
            line.answer == "--platform platform=iPad" || line.answer == "--platform platform=ios")
        try database.execute(try #require(line.statement))
        let made = try database.texts("SELECT is_apple FROM devices ORDER BY id")
        #expect(made == Device.some(180, mixed: true).map { [$0.isApple ? "1" : "0"] })
    }
}
