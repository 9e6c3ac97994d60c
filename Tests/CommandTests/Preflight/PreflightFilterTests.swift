import APNsProtocol
import Foundation
import TestSupport
import Testing

private let registered: Int64 = 1_690_000_000_000
private let dead: Int64 = 1_700_000_000_000

@Suite("The filter of preflight")
struct PreflightFilterTests {
    /// Passes an input through the filter.
    private func filter(
        _ stage: SendStage, _ input: some Sequence<UInt8>, _ more: String...
    ) throws -> ToolResult {
        let path = try stage.folder.write("input", input)
        return try stage.run(
            ["preflight", "--filter"] + more,
            under: ["/bin/sh", "-c", "exec \"$0\" \"$@\" < '\(path)'"])
    }

    private func hex(_ number: Int) -> String { DeviceToken.numbered(number).hex }

    @Test(
        "the lines that may be sent to are passed in their order, byte by byte",
        arguments: TestEngine.available)
    func passes(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        try stage.database.register(0..<20, at: registered)
        try stage.database.register(.numbered(100), at: registered, mark: dead)
        // Registered again after the mark: living, although its mark is still there.
        try stage.database.register(.numbered(101), at: dead + 1, mark: dead)
        try stage.database.register(
            .numbered(102), at: registered, environment: "sandbox", mark: dead)
        // A mark in the side table counts too.
        try stage.database.register(.numbered(103), at: registered)
        try stage.database.execute(
            "INSERT INTO pushsweep_invalid (token, app, environment, invalidated_at) "
                + "VALUES (?, 'chat', 'production', ?)",
            [.bytes(DeviceToken.numbered(103).bytes), stage.database.time(dead)])
        let grouped =
            "<"
            + stride(from: 0, to: 64, by: 8).map { start in
                let text = Array(hex(7))
                return String(text[start..<start + 8])
            }.joined(separator: " ") + ">"
        let kept = [
            hex(1) + "\n", "  " + hex(2).uppercased() + "\t\r\n", grouped + "\n", hex(101) + "\n",
            hex(102) + "\n", hex(900) + "\n", hex(1) + "\n", hex(3),
        ]
        let dropped = [
            hex(100) + "\n", "\n", " \r\n", hex(103).uppercased() + "\n", "no token\n",
            "<" + hex(100) + ">\n", hex(5).dropLast() + "\n",
        ]
        var lines: [String] = []
        for (index, line) in kept.enumerated() {
            if index < dropped.count { lines.append(dropped[index]) }
            lines.append(line)
        }
        for memory in ["256", "0"] {
            let result = try filter(
                stage, lines.joined().utf8, "--read-only", "--memory", memory
            ).ends(0, "left out 2 lines of 13 that are not tokens")
            #expect(result.output == kept.joined())
        }
    }

    @Test(
        "a table of another shape is filtered by its own column of living rows, or by the side table",
        arguments: TestEngine.available, [true, false])
    func otherTable(_ engine: TestEngine, _ hasLiving: Bool) throws {
        let stage = try SendStage(engine, schema: false)
        try stage.database.createSideTables()
        try stage.database.sql.run(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, token VARCHAR(200), active INTEGER)")
        stage.store +=
            "\n  active-users: {table: devices, key: [id], token: {column: token, encoding: hex}"
            + (hasLiving ? ", living: {column: active, living: 1, dead: 0}}" : "}")
        for number in 0..<30 {
            let text = number % 2 == 0 ? hex(number) : hex(number).uppercased()
            try stage.database.execute(
                "INSERT INTO devices VALUES (?, ?, ?)",
                [.integer(Int64(number)), .text(text), .integer(number < 10 ? 0 : 1)])
        }
        if !hasLiving {
            for number in 0..<10 {
                try stage.database.execute(
                    "INSERT INTO pushsweep_invalid (token, app, environment, invalidated_at) "
                        + "VALUES (?, 'chat', 'production', ?)",
                    [.bytes(DeviceToken.numbered(number).bytes), stage.database.time(dead)])
            }
        }
        let lines = (0..<40).map { hex($0) + "\n" }
        let result = try filter(stage, lines.joined().utf8, "--read-only").ends(0)
        #expect(result.output == lines[10...].joined())
    }

    @Test(
        "--only-known drops tokens without a row too, and what waits is applied first",
        arguments: TestEngine.available)
    func onlyKnown(_ engine: TestEngine) throws {
        let stage = try SendStage(engine)
        try stage.database.register(0..<2_000, at: registered)
        try stage.database.register(.numbered(5_000), at: registered, mark: dead)
        let lines = (0..<3_000).map { hex($0) + "\n" } + [hex(5_000) + "\n"]
        let result = try filter(stage, lines.joined().utf8, "--only-known", "--read-only").ends(0)
        #expect(result.output == lines.prefix(2_000).joined())
        try stage.database.report(hex(4))
        let input = hex(3) + "\n" + hex(4) + "\n"
        #expect(try filter(stage, input.utf8, "--read-only").output == input)
        #expect(try filter(stage, input.utf8).output == hex(3) + "\n")
    }

    @Test("many blocks of lines lose none, with and without room for all marks")
    func volume() throws {
        let stage = try SendStage()
        try stage.database.register(0..<10_000, at: registered)
        try stage.database.execute(
            "UPDATE active_users SET invalidated_at = ? WHERE id % 3 = 0",
            [stage.database.time(dead)])
        let living = Set(
            try stage.database.texts(
                "SELECT LOWER(HEX(device_token)) FROM active_users WHERE invalidated_at IS NULL"
            ).map { $0[0] })
        let lines = (0..<30_000).map { hex($0 % 15_000) }
        let absent = hex(10_000)...hex(14_999)
        let expected = lines.filter {
            living.contains($0) || absent.contains($0)
        }.map { $0 + "\n" }.joined()
        #expect(expected.utf8.count > 1_000_000)
        for memory in ["1", "0"] {
            let result = try filter(
                stage, lines.map { $0 + "\n" }.joined().utf8, "--read-only", "--memory", memory
            ).ends(0)
            #expect(result.output == expected)
        }
    }

    @Test("a reader that has enough ends the filter without a message")
    func readerLeaves() throws {
        let stage = try SendStage()
        try stage.database.register(0..<5, at: registered)
        let path = try stage.folder.write(
            "input", (0..<100_000).map { hex($0) + "\n" }.joined())
        let result = try stage.run(
            ["preflight", "--filter", "--read-only"],
            under: [
                "/bin/sh", "-c", "{ \"$0\" \"$@\" < '\(path)'; echo \"code $?\" >&2; } | head -n 2",
            ])
        #expect(result.output == hex(0) + "\n" + hex(1) + "\n")
        #expect(result.error == "code 0\n", "\(result.error)")
    }
}
