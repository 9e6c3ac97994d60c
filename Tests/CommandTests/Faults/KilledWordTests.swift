// kill -9 while a person's word is carried out: an undo, a discard, a release, a replay, an import, one of a log that has
// grown, the end of a grace period, a purge, the adoption of a state folder. One of two hosts is killed, and the other types the same again. Their clocks are ten minutes apart to each
// side of the database's, and in half of the rounds the other host sweeps meanwhile.
//
// The end of every round is known: it is that of the same word in a round where nobody was killed. So each round says
// how many devices are dead, how often the ledger has each row, and what a person's no still keeps back.

import APNsProtocol
import Foundation
import Glibc
import TestSupport
import Testing

@Suite(
    "A person's word on two hosts, one of which is killed", .serialized,
    .enabled(if: WallClockOfItsOwn.library != nil, Comment(rawValue: WallClockOfItsOwn.absence)))
struct KilledWordTests {
    /// Kills for each engine; the printed seed and this number repeat a run.
    private static let kills = Series.length("PUSHSWEEP_TEST_KILLS", short: 9, long: 60)
    /// The words, of which a run may name some.
    private static let kinds = KilledWord.Kind.allCases.filter {
        Environment.text("PUSHSWEEP_TEST_KILLED_WORDS")?.split(separator: ",").contains("\($0)")
            ?? true
    }

    @Test(
        "is carried out once and whole, when it is typed again on the other host", .needsServer)
    func kills() throws {
        let clocks = try (WallClockOfItsOwn(), WallClockOfItsOwn())
        try clocks.0.set("+10m")
        try clocks.1.set("-10m")
        // Two hosts have a server. The clock of SQLite is that of the host.
        for engine in [TestEngine.mariaDB] {
            var random = SeededGenerator("killed words on \(engine)")
            var lengths: [KilledWord.Kind: Duration] = [:]
            var tally: [String: Int] = [:]
            for round in 0..<Self.kills {
                let kind = Self.kinds[round % Self.kinds.count]
                let deletes = round / Self.kinds.count % 2 == 1
                let hosts = Bool.random(using: &random) ? clocks : (clocks.1, clocks.0)
                func stage() throws -> KilledWord {
                    try KilledWord(engine, kind, deleting: deletes, hosts: hosts)
                }
                // Every other kill waits until something has changed, and in a short series each.
                let isAimed = round / 2 % 2 == 1 || Self.kills < 12
                if lengths[kind] == nil, !isAimed {
                    let whole = try stage()
                    lengths[kind] = try whole.carryOut(killedAfter: nil).length
                    try #require(whole.problem() == nil)
                }
                let word = try stage()
                let length = lengths[kind] ?? .milliseconds(500)
                let end = try word.carryOut(
                    killedAfter: length
                        * .random(in: isAimed ? 0...0.4 : 0.2...1, using: &random),
                    ofChange: isAimed, besideSweep: Bool.random(using: &random))
                tally["\(kind) \(end.phase)", default: 0] += 1
                let problem = try word.problem()
                #expect(
                    problem == nil,
                    """
                    \(engine), seed \(random.seed), kill \(round), \(kind) \(end.phase), deleting \(deletes): \
                    \(problem ?? "")
                    """)
            }
            print("killed words on \(engine): \(tally.sorted { $0.key < $1.key })")
        }
    }
}

/// One word of a person about one list of reports.
private struct KilledWord {
    enum Kind: CaseIterable {
        case undo, discard, release, replay, grace, imported, grown, purged, adopted
    }

    /// How a killed run ended.
    struct End {
        let length: Duration
        let phase: String
    }

    /// Devices that are dead by the reports; devices that registered since; devices of which nobody speaks.
    private static let (dead, fresh, silent) = (0..<1_300, 5_000..<5_020, 6_000..<6_200)
    private static let (before, died, since): (Int64, Int64, Int64) = (
        1_600_000_000_000, 1_700_000_000_000, 1_750_000_000_000
    )

    private let kind: Kind
    private let stage: SweepStage
    /// The database to which the first folder belonged; nil where it has always belonged to that of the stage.
    private let earlier: TokenDatabase?
    private let hosts: (first: [String: String], other: [String: String])
    private var words: [String] = []

    init(
        _ engine: TestEngine, _ kind: Kind, deleting: Bool,
        hosts: (WallClockOfItsOwn, WallClockOfItsOwn)
    ) throws {
        self.kind = kind
        let list = Self.reported.map {
            FeedbackTuple.dead($0, at: UInt32(Self.died / 1_000) + UInt32($0 % 10))
        }
        stage = try SweepStage(
            engine, feeds: kind == .adopted ? [.tuples([]), .tuples(list)] : [])
        earlier = kind == .adopted ? try TokenDatabase(engine) : nil
        try earlier?.createOwnSchema()
        let stage = stage
        func host(_ name: String, _ clock: WallClockOfItsOwn) -> [String: String] {
            stage.host(name).merging(clock.environment) { $1 }
        }
        self.hosts = (host("a", hosts.0), host("b", hosts.1))
        stage.lines.policy =
            kind == .grace
            ? "policy: {action: delete, delete-after: 1d}"
            : "policy: {action: \(deleting ? "delete" : "mark")}"
        stage.lines.limits = SweepStage.anyNumber
        let database = stage.database
        try database.register(Self.dead, at: Self.before)
        try database.register(Self.fresh, at: Self.since)
        try database.register(Self.silent, at: Self.before)
        words = try prepare()
    }

    /// Brings the table to where the word is said, and returns the word.
    private func prepare() throws -> [String] {
        switch kind {
        case .undo:
            try report()
            let run = try run("sweep").json["run"] as? String ?? ""
            // The senders go on to say the same.
            try report()
            return ["undo", run]
        case .discard:
            return ["holds", "discard", try hold(), "--all", "--reason", "a wrong gateway"]
        case .release:
            _ = try hold()
            return ["holds", "release", try stage.shownHold()["digest"] as? String ?? ""]
        case .replay:
            let name = try hold()
            try run("holds", "discard", name, "--all", "--reason", "too soon").ends(0)
            return ["replay", "--batch", name]
        case .grace:
            try stage.database.execute(
                "UPDATE active_users SET invalidated_at = ? WHERE id <= ?",
                [stage.database.time(Self.died), .integer(Int64(Self.dead.count))])
            return ["sweep"]
        case .imported: return try importing(log())
        case .grown:
            let half = Array(Self.dead.prefix(Self.dead.count / 2))
            let path = try log(half)
            try stage.run(importing(path), environment: hosts.other).ends(0)
            return try importing(log(half + Self.reported.filter { !half.contains($0) }))
        case .purged:
            try report()
            try run("sweep").ends(0)
            try age()
            return ["purge"]
        case .adopted:
            guard let earlier else { return [] }
            let own = stage.lines.store
            stage.lines.store = try earlier.settingsLines(in: stage.folder)
            try run("sweep").ends(0)
            try run("sweep", "--dry-run").ends(75)
            stage.lines.store = own
            try run("sweep").ends(78)
            return ["sweep", "--adopt"]
        }
    }

    private func importing(_ path: String) -> [String] {
        ["import", path, "--from", "jsonl", "--app", "chat"]
    }

    /// Lets half a year go by since all that is recorded.
    private func age() throws {
        for (table, columns) in [
            ("pushsweep_change", ["changed_at"]), ("pushsweep_commit", ["committed_at"]),
            ("pushsweep_batch", ["changed_at", "opened_at", "heard_at"]),
            ("pushsweep_report", ["changed_at"]), ("pushsweep_run", ["started", "ended"]),
        ] {
            let aged = columns.map { "\($0) = \($0) - INTERVAL 180 DAY" }
            try stage.database.execute(
                "UPDATE \(table) SET \(aged.joined(separator: ", "))")
        }
    }

    /// The name of a hold with all reports.
    private func hold() throws -> String {
        stage.lines.limits = ""
        try report()
        try run("sweep").ends(3)
        stage.lines.limits = SweepStage.anyNumber
        return try stage.shownHold()["hold"] as? String ?? ""
    }

    /// A run of the first host to its end.
    @discardableResult
    private func run(_ words: String...) throws -> ToolResult {
        try stage.run(words + ["--format", "json"], environment: hosts.first)
    }

    private static var reported: [Int] { Array(dead) + Array(fresh) }

    /// A sender says of each device that it is gone.
    private func report() throws {
        try stage.database.sql.begin()
        for number in Self.reported {
            try stage.database.report(DeviceToken.numbered(number).hex, time: Self.died)
        }
        try stage.database.sql.commit()
    }

    /// A log that says the same of some devices, and not when it was said.
    private func log(_ numbers: [Int] = Self.reported) throws -> String {
        try stage.folder.write(
            "log.jsonl",
            numbers.map {
                """
                {"device_token":"\(DeviceToken.numbered($0).hex)","status":410,"timestamp_ms":\(Self.died)}

                """
            }.joined())
    }

    /// How far the work has come: rows, entries, notes, reports, and those that are decided.
    private func progress() throws -> [String] {
        let counts = [
            "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NULL",
            "SELECT COUNT(*) FROM pushsweep_change", "SELECT COUNT(*) FROM pushsweep_spared",
            "SELECT COUNT(*) FROM pushsweep_report",
            "SELECT COUNT(*) FROM pushsweep_report WHERE state = 0",
            "SELECT COUNT(*) FROM pushsweep_batch WHERE state = 'discarding'",
        ]
        return try counts.flatMap { try stage.database.texts($0)[0] }
    }

    /// Says the word on the first host, which is killed after a time, or that long after the first change; and then on
    /// the other one.
    func carryOut(
        killedAfter delay: Duration?, ofChange: Bool = false, besideSweep: Bool = false
    ) throws -> End {
        let before = try progress()
        let clock = ContinuousClock.now
        let first = try stage.start(words, environment: hosts.first)
        let beside =
            besideSweep ? try stage.start(["sweep"], environment: hosts.other) : nil
        if let delay {
            if ofChange { try eventually(seconds: 5) { try progress() != before } }
            let (seconds, attoseconds) = delay.components
            var pause = timespec(
                tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
            nanosleep(&pause, nil)
            first.signal(SIGKILL)
        }
        let result = first.wait()
        WallClockOfItsOwn.forget(first.pid)
        let length = ContinuousClock.now - clock
        beside?.wait().ends([0, 3, 4])
        let hasChanged = try progress() != before
        if delay == nil { result.ends(0) }
        // As a minute without renewal ends it.
        try stage.database.execute(
            "UPDATE pushsweep_lease SET expires_at = ?", [stage.database.time(Self.before)])
        if result.exit == 137 {
            // A word that was carried out already is refused in words, and an import that was taken in waits for the
            // next sweep.
            // The other host has no list of the first one's folder.
            let again = kind == .adopted ? hosts.first : hosts.other
            try stage.run(words, environment: again).ends([0, 64, 65, 66, 75])
        } else if [4, 69, 75].contains(result.exit) {
            // Another host had the lease, or the server was too busy for one more connection.
            try stage.run(words, environment: kind == .adopted ? hosts.first : hosts.other)
                .ends(0)
        }
        for host in [hosts.other, hosts.first] {
            try stage.run(["sweep"], environment: host).ends(0)
        }
        let ended = result.exit != 137 ? "ended with \(result.exit)" : "killed"
        return End(length: length, phase: ended + (hasChanged ? " after a change" : ""))
    }

    /// The devices that are not sent to.
    private func gone() throws -> Int {
        let all = Self.dead.count + Self.fresh.count + Self.silent.count
        return try all - stage.database.unmarked()
    }

    /// What is not as it is to be after the word; nil for nothing.
    func problem() throws -> String? {
        let database = stage.database
        let all = Self.dead.count
        switch kind {
        case .undo:
            if let wrong = try state(dead: 0, entries: 2 * all) { return wrong }
            return try heardAgain(entries: 3 * all)
        case .discard:
            if let wrong = try state(dead: 0, entries: 0) { return wrong }
            guard try database.rows(of: "pushsweep_spared") == Self.reported.count else {
                return "\(try database.rows(of: "pushsweep_spared")) notes"
            }
            try stage.run("import", try log(), "--from", "jsonl", "--app", "chat").ends(0)
            if let wrong = try state(dead: 0, entries: 0) { return "after a log: \(wrong)" }
            return try heardAgain(entries: all)
        case .release, .imported: return try state(dead: all, entries: all)
        case .grown:
            let reports = try database.rows(of: "pushsweep_report")
            return reports == Self.reported.count
                ? try state(dead: all, entries: all) : "\(reports) reports"
        case .purged:
            let reports = try database.rows(of: "pushsweep_report")
            return reports == 0 ? try state(dead: all, entries: 0) : "\(reports) reports"
        case .adopted:
            let other = try earlier?.marked ?? 0
            return other == 0 ? try state(dead: all, entries: all) : "\(other) marks elsewhere"
        case .replay:
            if let wrong = try state(dead: all, entries: all) { return wrong }
            let notes = try database.rows(of: "pushsweep_spared")
            return notes == Self.fresh.count ? nil : "\(notes) notes"
        case .grace:
            let rows = try database.rows()
            return rows == Self.fresh.count + Self.silent.count
                ? try state(dead: all, entries: all) : "\(rows) rows"
        }
    }

    /// The senders say the same again, after the person did: it counts.
    private func heardAgain(entries: Int) throws -> String? {
        try report()
        try stage.run(["sweep"], environment: hosts.other).ends(0)
        return try state(dead: Self.dead.count, entries: entries).map { "heard again: \($0)" }
    }

    /// What is wrong where so many devices are to be dead, with so many entries in the ledger.
    private func state(dead: Int, entries: Int) throws -> String? {
        let database = stage.database
        let living = try database.texts(
            "SELECT COUNT(*) FROM active_users WHERE invalidated_at IS NULL AND id > ?",
            [.integer(Int64(Self.dead.count))])
        if living != [["\(Self.fresh.count + Self.silent.count)"]] {
            return "living devices are gone: \(living)"
        }
        guard try gone() == dead else { return "\(try gone()) dead and not \(dead)" }
        let counts = try database.texts(
            "SELECT COUNT(*), COALESCE(MIN(n), 0), COALESCE(MAX(n), 0) FROM "
                + "(SELECT COUNT(*) AS n FROM pushsweep_change GROUP BY row_key) AS k")
        let each = "\(entries / Self.dead.count)"
        let wanted = entries == 0 ? ["0", "0", "0"] : ["\(Self.dead.count)", each, each]
        guard counts == [wanted] else { return "entries in the ledger: \(counts)" }
        let left = try database.texts(
            "SELECT state, COUNT(*) FROM pushsweep_batch WHERE state NOT IN ('applied', 'discarded') "
                + "GROUP BY state")
        guard left.isEmpty else { return "batches left: \(left)" }
        let undecided = try database.rows(
            of: "pushsweep_report",
            "state = 0 AND batch NOT IN (SELECT number FROM pushsweep_batch WHERE state = 'discarded')"
        )
        let waiting = try database.rows(of: "pushsweep_evidence")
        return undecided + waiting == 0 ? nil : "\(undecided) undecided, \(waiting) waiting"
    }
}
