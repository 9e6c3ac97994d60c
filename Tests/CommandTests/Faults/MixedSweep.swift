// The checker behind every fault that ends a sweep early. A feed names tokens of every kind the
// table can hold; after the fault, the bytes of lists in the state folder are the reference for the next
// run: it must apply all of them, change nothing else, count each tuple once, and leave nothing
// half done in the state folder.

import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport

private let firstDeath: UInt32 = 1_700_000_000

/// One database, one gateway, and a feed of tokens that are stale, fresh, unknown or marked
/// already.
struct MixedSweep: InterruptedRun {
    let stage: SweepStage
    let feed: [FeedbackTuple]
    private let isDeleting: Bool
    private let count: Int

    /// The state of a token in the table before the sweep.
    private enum Kind: Int, CaseIterable {
        case stale, fresh, unknown, marked
        init(_ number: Int) { self = [.stale, .stale, .fresh, .unknown, .marked][number % 5] }
    }

    init(
        _ engine: TestEngine, count: Int, deleting: Bool = false,
        behaviour: FeedbackBehaviour = FeedbackBehaviour(), random: inout SeededGenerator
    ) throws {
        isDeleting = deleting
        self.count = count
        feed = (0..<count).map { .dead($0, at: firstDeath + UInt32($0 % 50)) }
            .shuffled(using: &random)
        stage = try SweepStage(engine, feeds: [.tuples(feed)], behaviour: behaviour)
        stage.lines.policy = "policy: {action: \(deleting ? "delete" : "mark")}"
        stage.lines.limits = SweepStage.anyNumber
        try fill()
    }

    /// Forty tokens in two pieces, so that the journal is written to more than once.
    static func inTwoPieces(
        _ engine: TestEngine, deleting: Bool = false, random: inout SeededGenerator
    ) throws -> MixedSweep {
        var behaviour = FeedbackBehaviour()
        behaviour.pause = FeedbackBehaviour.Pause(afterByte: 700, duration: .milliseconds(15))
        return try MixedSweep(
            engine, count: 40, deleting: deleting, behaviour: behaviour, random: &random)
    }

    private func fill() throws {
        let database = stage.database
        for first in stride(from: 0, to: count, by: 500) {
            let numbers = (first..<min(first + 500, count)).filter { Kind($0) != .unknown }
            let row = "('user', 'chat', 'production', ?, ?, ?)"
            try database.execute(
                "INSERT INTO active_users (user_id, app_id, environment, device_token, "
                    + "registered_at, invalidated_at) VALUES "
                    + numbers.map { _ in row }.joined(separator: ","),
                numbers.flatMap { number in
                    let kind = Kind(number)
                    return [
                        .bytes(DeviceToken.numbered(number).bytes),
                        database.time(kind == .fresh ? 1_750_000_000_000 : 1_600_000_000_000),
                        kind == .marked ? database.time(1_750_000_000_000) : .null,
                    ]
                })
        }
    }

    /// The bytes of lists that a run would find now in the state folder, or in another one.
    func keptBytes(in state: String? = nil) -> [UInt8] {
        (try? stage.journaledBytes(in: state)) ?? []
    }

    func recover() throws -> String? {
        let bytes = FeedbackTuple.bytes(feed)
        let kept = keptBytes()
        guard bytes.starts(with: kept) else { return "what was kept is not a prefix of the list" }
        let result = try stage.sweep()
        guard let read = try? stage.journaledBytes() else {
            return "no lists after exit \(result.exit): \(result.error)"
        }
        guard read.starts(with: kept) else { return "kept bytes changed" }
        guard bytes.starts(with: read) else { return "what was read is not a prefix of the list" }
        let isCut = read.count % 38 != 0
        guard result.exit == (isCut ? 65 : 0) else {
            return "exit \(result.exit) with \(read.count) bytes: \(result.error)"
        }
        return try wrongEnd(after: read.count)
    }

    var folder: TemporaryFolder { stage.folder }

    func start(under command: [String] = []) throws -> RunningTool {
        try stage.start(["sweep"], under: command)
    }

    func wrongSuccess() throws -> String? { try wrongEnd(after: feed.count * 38) }

    /// The first difference after a number of bytes of the feed were read and applied.
    func wrongEnd(after bytes: Int) throws -> String? {
        let known = feed.prefix(bytes / 38)
        return try wrongRow(known) ?? wrongCount(known) ?? wrongState()
    }

    private func wrongRow(_ known: ArraySlice<FeedbackTuple>) throws -> String? {
        let dead = Set(known.compactMap(\.token))
        let rows = try stage.database.texts(
            "SELECT device_token, invalidated_at IS NOT NULL FROM active_users")
        let marks = Dictionary(uniqueKeysWithValues: rows.map { ($0[0], $0[1] == "1") })
        for number in 0..<count {
            let token = DeviceToken.numbered(number)
            let isDead = dead.contains(token)
            let expected: Bool? =
                switch Kind(number) {
                case .unknown: nil
                case .fresh: false
                case .marked: isDeleting && isDead ? nil : true
                case .stale: isDead ? (isDeleting ? nil : true) : false
                }
            if marks[token.hex] != expected {
                return "token \(number), a \(Kind(number)) one, \(isDead ? "dead" : "not named"), "
                    + "has mark \(String(describing: marks[token.hex]))"
            }
        }
        return nil
    }

    private func wrongCount(_ known: ArraySlice<FeedbackTuple>) throws -> String? {
        var expected: [Kind: Int] = [:]
        for tuple in known {
            guard let last = tuple.token?.bytes.suffix(2) else { continue }
            let number = last.reduce(0) { $0 << 8 | Int($1) }
            expected[Kind(number), default: 0] += 1
        }
        let counts =
            try stage.database.texts(
                "SELECT COALESCE(SUM(applied), 0), COALESCE(SUM(already), 0), COALESCE(SUM(newer), 0), "
                    + "COALESCE(SUM(unknown_tokens), 0), (SELECT COUNT(*) FROM pushsweep_change) "
                    + "FROM pushsweep_batch"
            ).first ?? []
        let marked = expected[.marked] ?? 0
        let applied = (expected[.stale] ?? 0) + (isDeleting ? marked : 0)
        let wanted = [
            applied, isDeleting ? 0 : marked, expected[.fresh] ?? 0, expected[.unknown] ?? 0,
            applied,
        ].map(String.init)
        return counts == wanted ? nil : "counted \(counts), expected \(wanted)"
    }

    /// No list is being read, and no file exists but those that runs share, and those of applied lists.
    private func wrongState() throws -> String? {
        let states = try stage.feedStates()
        guard states.allSatisfy({ $0 == "applied" }) else { return "feeds are \(states)" }
        let files = try FileManager.default.contentsOfDirectory(atPath: stage.state)
        let known: Set = [
            "database", "identity", "journal.sqlite", "journal.sqlite-journal",
            "lock",
        ]
        return known.isSuperset(of: files.filter { !$0.hasPrefix("applied-") })
            ? nil : "the state folder holds \(files.sorted())"
    }
}
