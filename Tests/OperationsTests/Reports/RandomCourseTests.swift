// Reports, sweeps, wrong and right settings, undos and replays in random order, by the real program. After each course
// some things hold whatever came before: each report is in one place, a stale row has a report that is not older than
// its registration, an undo stays undone unless something was said after it, and what is beyond doubt is marked
// once the settings are right.

import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

private let dead: Int64 = 1_700_000_000_000

@Suite("Random courses of reports")
struct RandomCourseTests {
    @Test(
        "in any order of reports, sweeps, settings, undos and replays none is lost, no living row is marked, and an undo holds",
        arguments: TestEngine.available)
    func courses(_ engine: TestEngine) throws {
        var random = SeededGenerator("courses of reports on \(engine.rawValue)")
        let count = Series.length(
            "PUSHSWEEP_TEST_COURSES", short: engine == .sqlite ? 12 : 5, long: 150)
        let alone = Environment.number("PUSHSWEEP_TEST_COURSE")
        var done: [String: Int] = [:]
        for _ in 0..<(alone == nil ? count : 1) {
            let seed = alone ?? random.next()
            var course = try Course(engine, SeededGenerator(seed))
            let faults = try course.run()
            done.merge(course.done, uniquingKeysWith: +)
            guard faults.isEmpty else {
                Issue.record(
                    """
                    PUSHSWEEP_TEST_COURSE=\(seed) on \(engine.rawValue):
                    \(faults.joined(separator: "\n"))
                    \(course.story.joined(separator: "\n"))
                    """)
                break
            }
        }
        print("courses on \(engine.rawValue): \(done.sorted { $0.key < $1.key })")
        #expect(alone != nil || (done["marked"] ?? 0) > 0 && (done["moved"] ?? 0) > 0)
    }
}

/// One course.
private struct Course {
    /// What is known of a token.
    struct Known {
        var registered: Int64
        /// The times of its reports.
        var reports: [Int64] = []
        /// Whether an undo has ever touched it, and whether nothing was said of it since the last one left it living.
        var wasUndone = false
        var isUndone = false
    }

    private static let tokens = 0..<8
    private static let wrong = "\n    value: talk"
    let stage: SweepStage
    private var random: SeededGenerator
    private var known: [Int: Known] = [:]
    private(set) var story: [String] = []
    private(set) var done: [String: Int] = [:]
    private var wasReplayed = false
    private var (value, skew) = ("", "2s")

    init(_ engine: TestEngine, _ random: SeededGenerator) throws {
        self.random = random
        stage = try SweepStage(engine, feeds: [ListSource](repeating: .tuples([]), count: 99))
        stage.lines.limits = SweepStage.anyNumber
        for number in Self.tokens {
            let registered = dead + [-90_000_000, -4_000, -1_000].one(&self.random)
            try stage.database.register(.numbered(number), at: registered)
            known[number] = Known(registered: registered)
        }
    }

    mutating func run() throws -> [String] {
        if Bool.random(using: &random) { value = Self.wrong }
        let steps = Int.random(in: 5...14, using: &random)
        for _ in 0..<steps {
            switch Int.random(in: 0..<10, using: &random) {
            case 0...2: try report()
            case 3...4: try sweep()
            case 5: try register()
            case 6: value = value.isEmpty ? Self.wrong : ""
            case 7: skew = skew == "2s" ? "8s" : "2s"
            case 8: try undo()
            default: try replay()
            }
        }
        value = ""
        try sweep()
        return try faults()
    }

    private mutating func tell(_ words: String) { story.append("  \(words)") }

    private mutating func command(_ words: [String]) throws {
        stage.lines.policy = "policy: {action: mark, clock-skew: \(skew)}"
        let first = stage.lines.certificate.split(separator: "\n")[0]
        stage.lines.certificate = first + value
        let result = try stage.run(words)
        tell(
            "\(words.joined(separator: " ")) skew \(skew)\(value.isEmpty ? "" : ", wrong value"): \(result.exit)"
        )
        guard [0, 3].contains(result.exit) else {
            throw TestFailure("\(words) ended with \(result.exit): \(result.error)")
        }
    }

    // MARK: Steps

    private mutating func report() throws {
        for _ in 0...Int.random(in: 0...3, using: &random) {
            let number = Self.tokens.randomElement(using: &random) ?? 0
            let time = dead + [0, 500, 3_000, 20_000, 100_000].one(&random)
            try stage.database.report(DeviceToken.numbered(number).hex, time: time)
            known[number]?.reports.append(time)
            known[number]?.isUndone = false
            tell("report \(number) at \(time - dead)")
        }
    }

    private mutating func register() throws {
        let number = Self.tokens.randomElement(using: &random) ?? 0
        let time = dead + [600, 10_000, 60_000].one(&random)
        guard let last = known[number]?.registered, time > last else { return }
        try stage.database.execute(
            "UPDATE active_users SET registered_at = ? WHERE device_token = ?",
            [stage.database.time(time), .bytes(DeviceToken.numbered(number).bytes)])
        known[number]?.registered = time
        tell("register \(number) at \(time - dead)")
    }

    private mutating func sweep() throws {
        try command(["sweep"])
        done["marked", default: 0] += try stage.database.marked
        done["moved", default: 0] += try stage.database.rows(
            of: "pushsweep_batch", "inlet = 'earlier'")
    }

    private mutating func undo() throws {
        let runs = try stage.database.texts("SELECT DISTINCT run FROM \(ledgerWithRuns) ORDER BY 1")
        guard let run = runs.randomElement(using: &random) else { return }
        let before = try stale()
        try command(["undo", run[0]])
        let after = try stale()
        for number in before.symmetricDifference(after) {
            known[number]?.wasUndone = true
            // The undo of an undo marks again, by a person's word.
            known[number]?.isUndone = before.contains(number)
            tell("undone \(number): \(before.contains(number))")
        }
    }

    private mutating func replay() throws {
        let batches = try stage.database.texts(
            "SELECT name FROM pushsweep_batch WHERE inlet <> '' AND state = 'applied' AND reports > removed ORDER BY 1"
        )
        guard let batch = batches.randomElement(using: &random) else { return }
        try command(["replay", "--batch", batch[0]])
        wasReplayed = true
        for number in Self.tokens { known[number]?.isUndone = false }
    }

    // MARK: What holds

    private func rows() throws -> [Int: (registered: Int64, mark: Int64?)] {
        let dialect = stage.database.sql.dialect
        let found = try stage.database.sql.query(
            "SELECT device_token, registered_at, invalidated_at FROM active_users")
        var rows: [Int: (Int64, Int64?)] = [:]
        for row in 0..<found.count {
            guard case .bytes(let token) = found[row, 0],
                let number = Self.tokens.first(where: {
                    Array(DeviceToken.numbered($0).bytes) == token
                }),
                let registered = dialect.ownTime("registered_at").mark(found[row, 1])
            else { continue }
            rows[number] = (
                registered.rawValue,
                dialect.ownTime("invalidated_at").mark(found[row, 2])?.rawValue
            )
        }
        return rows
    }

    private func stale() throws -> Set<Int> {
        Set(
            try rows().filter { row in row.value.mark.map { $0 >= row.value.registered } ?? false }
                .keys)
    }

    private func faults() throws -> [String] {
        var faults: [String] = []
        let (rows, stale) = (try rows(), try stale())
        for (number, known) in known.sorted(by: { $0.key < $1.key }) {
            guard let row = rows[number] else {
                faults.append("the row of \(number) is gone")
                continue
            }
            if let mark = row.mark, !known.reports.contains(mark) {
                faults.append("\(number) has a mark of \(mark - dead), which no report says")
            }
            if known.isUndone, stale.contains(number) {
                faults.append("\(number) was undone, nothing was said since, and it is stale")
            }
            let isCertain = known.reports.contains { $0 > known.registered + 8_000 }
            if isCertain, !known.wasUndone, !wasReplayed, !stale.contains(number) {
                faults.append("\(number) is beyond doubt dead and not stale")
            }
        }
        let reports = known.values.reduce(0) { $0 + $1.reports.count }
        let kept = try stage.database.rows(of: "pushsweep_report")
        if kept != reports { faults.append("\(reports) reports were made and \(kept) are kept") }
        let waiting = try stage.database.rows(
            of: "pushsweep_batch", "state NOT IN ('applied') AND inlet <> ''")
        if waiting > 0 { faults.append("\(waiting) batches are not decided") }
        let audit = try stage.run("audit", "--deep")
        if audit.output.contains("unbalanced") || audit.exit != 0 {
            faults.append("audit: \(audit.exit) \(audit.output.prefix(500))")
        }
        return faults
    }
}
