// A database with one thing in each state that a missing right could hide: marked and living rows, waiting reports, a
// suspect, an applied batch with its changes, a held one, a part in the quarantine, the note of an undo, and a queue
// with due rows. All of it is kept beside the database, and each command begins with a copy of it: so what a command
// says and leaves under one account can be compared with what it says and leaves under another.

import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport

/// The database and its copy, the state folder and its copy, and the commands that know what is there.
final class RightsScene {
    /// Where marks and the results of a sender stand.
    enum Home: String {
        case columns
        case beside

        fileprivate var store: String {
            guard self == .beside else { return "" }
            return "\n  active-users: {invalidated-at: {column: none}, reason: {column: none}}"
                + "\n  push-queue: {state: none, attempts: none, reason: none, not-before: none, answered-at: none}"
        }
    }

    /// What a run under one account says and leaves.
    struct Outcome: Equatable {
        let exit: Int32
        /// All that was printed and written, without times, names of runs, and the account.
        let said: String
        /// The page of metrics in the same way; empty for a command that writes none.
        let page: String
        /// The rows of all tables, without times and numbers that a run draws.
        let rows: [String]

        var withoutPage: Outcome { Outcome(exit: exit, said: said, page: "", rows: rows) }
    }

    let home: Home
    let stage: SendStage
    private let policy: String
    private let kept: String
    private let tables: [String]
    private var images: [(table: String, query: String)] = []
    private var names: [String: String] = [:]
    private var runs = 0

    init(_ home: Home, _ policy: String) throws {
        (self.home, self.policy) = (home, policy)
        var script = ProviderScript()
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        for number in [20, 24] {
            script.tokens[.numbered(number)] = .reply(
                ScriptedReply(.unregistered, timestamp: now - 1_000))
        }
        stage = try SendStage(.mariaDB, script: script)
        stage.store += home.store
        stage.appsBefore = """
              - name: other
                topic: com.example.chat
                environment: production
                \(stage.credential)
                provider: {host: 127.0.0.1, port: \(stage.port), ca: \(try SweepStage.certificates.get().authority)}

            """
        kept = stage.database.name + "_kept"
        tables = try stage.database.texts(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1"
        ).map(\.[0])
        try prepare(now)
        try keep()
    }

    deinit { try? stage.database.execute("DROP DATABASE IF EXISTS \(kept)") }

    // MARK: Preparing

    private func settle(_ policy: String, _ limits: String = SweepStage.anyNumber) {
        stage.lines =
            "policy: {\(policy)}\n\(limits)\nreport: {metrics-file: \(stage.folder.file("page.prom"))}"
    }

    private func report(_ numbers: Range<Int>, at time: Int64, status: Int = 410) throws {
        for number in numbers {
            try stage.database.report(
                DeviceToken.numbered(number).hex, status: status,
                reason: status == 400 ? "BadDeviceToken" : nil, time: time)
        }
    }

    private func lines(_ numbers: Range<Int>, at time: Int64) -> String {
        numbers.map {
            #"{"token":"\#(DeviceToken.numbered($0).hex)","status":410,"timestamp":\#(time)}"#
                + "\n"
        }.joined()
    }

    private func prepare(_ now: Int64) throws {
        let (database, hour) = (stage.database, Int64(3_600_000))
        try database.register(0..<60, at: 1_600_000_000_000)
        try database.update("user_id = 'one'", of: 6)
        for number in 70..<100 {
            try database.register(.numbered(number), at: 1_600_000_000_000, app: "other")
        }
        settle("action: mark")
        // Changes that a person took back long ago, which a purge drops.
        try report(0..<5, at: now - 1_500 * hour)
        try stage.run("undo", swept()).ends(0)
        try age(by: 60)
        // Marks that a grace period of a day removes.
        try report(5..<9, at: now - 100 * hour)
        names["marked"] = try swept()
        try age(by: 3)
        settle(policy.contains("delete-after") ? "action: mark" : policy)
        try report(9..<12, at: now - 1_000)
        try report(12..<15, at: now - 1_000, status: 400)
        names["run"] = try swept()
        try database.report("zz", time: now - 1_000)
        names["unusable"] = try batch(of: stage.sweep().ends([0, 65]))
        try stage.queue([20, 21])
        try stage.send().ends(0)
        settle("action: mark", "guard: {floor: 0, partition-percent: 1}")
        let log = try stage.folder.write("held.jsonl", lines(70..<90, at: now - 1_000))
        try stage.run(
            "import", log, "--app", "other", "--from", "jsonl", "--map",
            "token=.token,time=.timestamp,status=.status"
        ).ends(3)
        settle(policy)
        let shown = try stage.json("holds", "show").ends(0)
        names["digest"] = shown.json["digest"] as? String
        names["held"] = try database.texts("SELECT name FROM pushsweep_batch WHERE state = 'held'")[
            0][0]
        names["log"] = try stage.folder.write("new.jsonl", lines(50..<53, at: now - 1_000))
        names["living"] = try stage.folder.write(
            "living", (30..<50).map { DeviceToken.numbered($0).hex + "\n" }.joined())
        names["tokens"] = try stage.folder.write(
            "tokens", (0..<60).map { DeviceToken.numbered($0).hex + "\n" }.joined())
        let list = FeedbackTuple.bytes((53..<56).map { .dead($0, at: UInt32(now / 1_000 - 60)) })
        names["list"] = stage.folder.file("list.bin")
        try Data(list).write(to: URL(fileURLWithPath: stage.folder.file("list.bin")))
        // What waits.
        try report(15..<18, at: now - 1_000)
        try report(18..<19, at: now - 1_000, status: 400)
        try database.report("xy", time: now - 1_000)
        try stage.queue([6, 13, 16, 22, 23, 24, 25, 26, 27, 28, 999])
        // What a row names decides: these are refused, and would be sent if their column were not read.
        for (number, option) in [
            (25, "push_type = 'none'"), (26, "priority = 3"), (27, "expiration = -5"),
            (28, "collapse_id = REPEAT('ä', 60)"),
        ] {
            try database.execute(
                "UPDATE push_queue SET \(option) WHERE device_token = ?",
                [.bytes(DeviceToken.numbered(number).bytes)])
        }
    }

    /// The run of a sweep that applied something.
    private func swept() throws -> String {
        try stage.sweep().ends(0).json["run"] as? String ?? ""
    }

    /// The batch with what could not be used.
    private func batch(of result: ToolResult) throws -> String {
        let found = try stage.database.texts(
            "SELECT name FROM pushsweep_quarantine JOIN pushsweep_batch ON pushsweep_batch.number = batch"
        )
        guard let first = found.first?.first else { throw TestFailure(result.printed) }
        return first
    }

    /// Makes all changes until now so many days older, their times of the database only.
    private func age(by days: Int) throws {
        for (table, columns) in [
            ("run", ["started", "ended"]), ("batch", ["changed_at", "opened_at", "heard_at"]),
            ("report", ["changed_at"]), ("change", ["changed_at"]), ("commit", ["committed_at"]),
            ("intake", ["taken_at"]),
        ] {
            let older = columns.map { "\($0) = \($0) - INTERVAL \(days) DAY" }
            try stage.database.execute(
                "UPDATE pushsweep_\(table) SET \(older.joined(separator: ", "))")
        }
    }

    // MARK: Keeping and restoring

    private func keep() throws {
        let database = stage.database
        try database.execute("CREATE DATABASE \(kept) CHARACTER SET utf8mb4")
        for table in tables {
            try database.execute("CREATE TABLE \(kept).\(table) LIKE \(table)")
            try database.execute("INSERT INTO \(kept).\(table) SELECT * FROM \(table)")
            images.append((table, "SELECT \(try image(of: table)) FROM \(table)"))
        }
        try FileManager.default.copyItem(atPath: stage.state, toPath: stage.folder.file("kept"))
    }

    /// The columns of a table that two runs of one command leave alike. Of a time it counts whether there is one.
    private func image(of table: String) throws -> String {
        let drawn: Set = [
            "run", "part", "batch", "by_run", "fence", "owner", "intake", "origin", "moved_to",
            "counts", "number", "last_claim", "apns_space", "row_keys",
        ]
        return try stage.database.texts(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = DATABASE() "
                + "AND table_name = ? ORDER BY ordinal_position", [.text(table)]
        ).compactMap { column in
            let isOwn = column[0] == "id" && table.hasPrefix("pushsweep_")
            if isOwn || drawn.contains(column[0]) { return nil }
            let isTime = ["datetime", "timestamp"].contains(column[1])
            return isTime ? "`\(column[0])` IS NULL" : "`\(column[0])`"
        }.joined(separator: ", ")
    }

    private func restore() throws {
        let (database, files) = (stage.database, FileManager.default)
        try database.sql.begin()
        for table in tables {
            try database.execute("DELETE FROM \(table)")
            try database.execute("INSERT INTO \(table) SELECT * FROM \(kept).\(table)")
        }
        try database.sql.commit()
        try? files.removeItem(atPath: stage.state)
        try files.copyItem(atPath: stage.folder.file("kept"), toPath: stage.state)
        try? files.removeItem(atPath: stage.folder.file("page.prom"))
    }

    // MARK: Running

    /// Runs a command on a fresh copy under an account.
    func run(_ command: RightsCommand, as account: ServerAccount) throws -> (
        result: ToolResult, outcome: Outcome
    ) {
        try restore()
        runs += 1
        let fresh = stage.folder.file("written\(runs)")
        var words = command.words.map {
            $0.hasPrefix("@") ? names[String($0.dropFirst())] ?? $0 : $0
        }
        words = words.map { $0 == "@fresh" ? fresh : $0 }
        var environment = account.environment
        if words[0] == "init", let server = MariaDBServer.fromEnvironment {
            words += [environment["PUSHSWEEP_STORE_URL"] ?? "", "--ca", server.ca]
            environment["PUSHSWEEP_STORE_URL"] = nil
        } else {
            words += ["--config", try stage.settings()]
        }
        let result = try RunningTool("pushsweep", words, environment: environment).wait()
        var said = result.printed
        said += (try? String(contentsOfFile: fresh, encoding: .utf8)) ?? ""
        let page =
            (try? String(contentsOfFile: stage.folder.file("page.prom"), encoding: .utf8)) ?? ""
        // The first look counts the tables that the account sees, and knows no others.
        if words[0] == "init" { said.replace(/"tables":\d+/, with: "") }
        said = bare(said.replacing(fresh, with: "written"), account)
        let rows = try images.flatMap { table, query in
            try stage.database.texts(query).map {
                bare("\(table): \($0.joined(separator: " "))", account)
            }
            .sorted()
        }
        return (
            result,
            Outcome(exit: result.exit, said: said, page: bare(page, account), rows: rows)
        )
    }

    /// A text without times, lengths of time, names of runs, digests and the account.
    private func bare(_ text: String, _ account: ServerAccount) -> String {
        var text = text.replacing(account.name, with: "account")
        for pattern in [
            #"[0-9a-f]{8}-[0-9a-f-]{27}"#, #"\d{4}-\d\d-\d\d[T ][0-9:.]+Z?"#, #"\b[0-9a-f]{8}\b"#,
            #"\b1[0-9]{9,12}(\.\d+)?\b"#, #"\b[0-9.]+ ?(ms|s|seconds?|minutes?)\b"#,
            #"(?<=[sS]econds": ?)(-?[0-9.e-]+|\{[^}]*\})"#,
            #"(?<=(clockDifference|hoursSince|hoursSinceSweep|longestGap)": ?)-?[0-9.]+"#,
            #"(?<=_seconds)((\{[^}]*\})?) [0-9.]+"#,
        ] {
            text = text.replacingOccurrences(of: pattern, with: "#", options: .regularExpression)
        }
        return text
    }
}
