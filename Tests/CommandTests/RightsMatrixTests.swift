// Each right of the printed grants is taken away once, and each command that the grants are printed for runs without
// it. Beside the same command with all rights, on a fresh copy of the same state, there are three good ends:
//
//   77   it ends with 77, and the GRANT that it names makes it work again
//   gap  it looks only, and names the table that it did not see
//   =    the right made no difference: code, output and rows are the same
//
// Anything else is an answer that changed without a word. In the usual run a drawn sample is tried, in a long one all.

import Foundation
import TestSupport
import Testing

@Suite("One right less", .needsServer, .serialized)
struct RightsMatrixTests {
    /// What is granted together, and the commands of it.
    struct Work {
        let name: String
        /// The beginnings of the jobs that `check --grants` prints.
        let jobs: [String]
        let commands: [RightsCommand]
    }

    private static let sweeping = ["sweep, import", "all jobs", "knowing"]

    private static let works = [
        Work(
            name: "look", jobs: ["preflight, audit", "explain", "check, to see", "knowing"],
            commands: RightsCommand.ofLooker),
        Work(name: "sweep", jobs: sweeping, commands: RightsCommand.ofSweeper),
        Work(name: "undo", jobs: ["undo"], commands: RightsCommand.ofUndoer),
        Work(name: "purge", jobs: ["purge"], commands: RightsCommand.ofPurger),
        Work(name: "send", jobs: sweeping + ["send,"], commands: RightsCommand.ofSender),
    ]

    /// The states of the scene, of which the usual run takes one. What looks is tried once for each home.
    private static let scenes: [(home: RightsScene.Home, policy: String, isLookedAt: Bool)] = [
        (.columns, "action: mark", true), (.beside, "action: delete, delete-after: 1d", true),
        (.beside, "action: mark", false), (.columns, "action: delete", false),
    ]

    /// The number of runs with a right less in a usual run.
    private static let sample = 35

    @Test("ends a command with 77 and its cure, is a named gap, or makes no difference")
    func each() throws {
        var random = SeededGenerator("one right less")
        var chosen = Self.scenes.indices.map { $0 }
        if let only = Environment.number("PUSHSWEEP_TEST_RIGHTS_SCENE") {
            chosen = [Int(only)]
        } else if !Series.isLong {
            chosen = [chosen.one(&random)]
        }
        for place in chosen {
            let (home, policy, isLookedAt) = Self.scenes[place]
            let scene = try RightsScene(home, policy)
            for work in Self.works where isLookedAt || work.name != "look" {
                print("\n\(work.name), marks and results in \(home), \(policy)")
                try Matrix(work, scene).fill(&random, sample: Series.isLong ? nil : Self.sample / 5)
            }
        }
    }
}

/// The ends of the commands of one account in one scene.
private final class Matrix {
    /// How a command ended with a right less.
    private enum End: Equatable {
        case same
        case cured
        case gap
        case wrong(String)

        var letter: String {
            switch self {
            case .same: "="
            case .cured: "77"
            case .gap: "gap"
            case .wrong: "WRONG"
            }
        }
    }

    private let scene: RightsScene
    private let account: ServerAccount
    private let rights: [OneRight]
    private let commands: [RightsCommand]
    private var whole: [RightsCommand: (result: ToolResult, outcome: RightsScene.Outcome)] = [:]
    private var ends: [OneRight: [RightsCommand: End]] = [:]

    init(_ work: RightsMatrixTests.Work, _ scene: RightsScene) throws {
        self.scene = scene
        commands = work.commands
        account = try ServerAccount(of: scene.stage.database)
        let printed = try scene.stage.json("check", "--grants", account.name).ends(0)
        let jobs = printed.json["jobs"] as? [[String: Any]] ?? []
        let statements = jobs.filter { job in
            work.jobs.contains { (job["job"] as? String)?.hasPrefix($0) == true }
        }.flatMap { $0["statements"] as? [String] ?? [] }
        rights = try OneRight.all(statements)
        #expect(rights.count > 8, "\(printed.output)")
        try account.run(rights.map { $0.grant(account) })
    }

    /// Tries the pairs of rights and commands, all or a sample, and prints the table.
    func fill(_ random: inout SeededGenerator, sample: Int?) throws {
        var pairs = rights.flatMap { right in
            commands.map { (right, $0) }
                + right.parts.flatMap { part in
                    commands.filter(\.readsColumns).map { (part, $0) }
                }
        }
        if let sample { pairs = Array(pairs.shuffled(using: &random).prefix(sample)) }
        print("  \(rights.count) rights, \(pairs.count) pairs")
        for (right, command) in pairs {
            let end = try end(of: command, without: right)
            ends[right, default: [:]][command] = end
            if case .wrong(let why) = end {
                Issue.record("\(command.name) without \(right.name): \(why)")
            }
        }
        show()
    }

    /// The run with all rights, which is the same twice.
    private func whole(
        _ command: RightsCommand
    ) throws -> (result: ToolResult, outcome: RightsScene.Outcome) {
        if let known = whole[command] { return known }
        let (first, second) = (
            try scene.run(command, as: account), try scene.run(command, as: account)
        )
        #expect(
            first.outcome.exit != 77 || !command.decides, "\(command.name): \(first.result.printed)"
        )
        let isSame = first.outcome == second.outcome
        #expect(
            isSame,
            "\(command.name) is not the same twice: \(Self.difference(first.outcome, second.outcome))"
        )
        whole[command] = first
        return first
    }

    private func end(of command: RightsCommand, without right: OneRight) throws -> End {
        let whole = try whole(command)
        try account.run([right.revoke(account)])
        let (result, outcome) = try scene.run(command, as: account)
        defer { try? account.run([right.grant(account)]) }
        if outcome == whole.outcome { return .same }
        if outcome.withoutPage == whole.outcome.withoutPage {
            // The page of a run that needed nothing there says that it did not see the batches.
            return outcome.page.contains("batches_unseen 1") ? .gap : .wrong("page")
        }
        if outcome.exit == 77, whole.outcome.exit != 77 {
            return try cured(command, result, whole.outcome)
        }
        if !command.decides, names(right, command, result, beside: whole.result) { return .gap }
        return .wrong(Self.difference(whole.outcome, outcome) + "\n\(result.error)")
    }

    /// Runs the GRANT that a result names, and the command again. A right on a table may have to be seen before the
    /// next is asked about, so this is done up to three times.
    private func cured(
        _ command: RightsCommand, _ result: ToolResult, _ whole: RightsScene.Outcome
    ) throws -> End {
        defer { try? reset() }
        var result = result
        for _ in 1...3 {
            let grants = result.printed.matches(
                of: /GRANT [A-Z][^;\n"]*? ON [^ ;]+ TO [`'][^`']+[`']@[`'][^`']*[`']/
            ).map { String($0.0) }
            guard !grants.isEmpty else { return .wrong("77 without a GRANT: \(result.printed)") }
            try account.run(Set(grants))
            let again = try scene.run(command, as: account)
            // A wider right than the one taken away may let a look try more.
            let isAsBefore = again.outcome == whole
            if isAsBefore || !command.decides && again.outcome.exit == whole.exit { return .cured }
            guard again.outcome.exit == 77 else {
                return .wrong(
                    "\(grants) does not cure it: \(Self.difference(whole, again.outcome))")
            }
            result = again.result
        }
        return .wrong("no GRANT cures it: \(result.printed)")
    }

    /// Whether a result has a sentence about the table of a right that the run with all rights has not.
    private func names(
        _ right: OneRight, _ command: RightsCommand, _ result: ToolResult, beside whole: ToolResult
    ) -> Bool {
        // Who knows no settings does not know the name of a table that is hidden.
        if command.words[0] == "init", result.error.contains("that the account may read its tables")
        {
            return true
        }
        // An undo that is only foretold counts the rows that it had no right to try.
        if result.json["untried"] as? Int ?? 0 > 0 { return true }
        let known = Set(Self.pieces(whole))
        return Self.pieces(result).contains { piece in
            // The right to a whole table covers its columns.
            let wider = "GRANT \(right.privilege) ON \(right.table)"
            let isNew = !known.contains(piece) || !right.columns.isEmpty && piece.contains(wider)
            return isNew && piece.contains(right.tableName ?? right.privilege)
                && ["GRANT", "may not", "grant the account"].contains(where: piece.contains)
        }
    }

    private static func pieces(_ result: ToolResult) -> [Substring] {
        result.printed.split { $0 == "\n" || $0 == "\"" }
    }

    /// Gives the account exactly its rights again.
    private func reset() throws {
        try account.run(["REVOKE ALL PRIVILEGES, GRANT OPTION FROM '\(account.name)'@'%'"])
        try account.run(rights.map { $0.grant(account) })
    }

    /// What two outcomes do not have in common, shortened.
    private static func difference(
        _ whole: RightsScene.Outcome, _ other: RightsScene.Outcome
    ) -> String {
        func lines(_ outcome: RightsScene.Outcome) -> [String] {
            ["exit \(outcome.exit)"] + outcome.rows
                + outcome.said.split { "\n,".contains($0) }.map(String.init)
        }
        let (before, after) = (lines(whole), lines(other))
        let (gone, come) = (Set(before).subtracting(after), Set(after).subtracting(before))
        return
            (before.filter(gone.contains).prefix(12).map { "- \($0.prefix(300))" }
            + after.filter(come.contains).prefix(12).map { "+ \($0.prefix(300))" })
            .joined(separator: "\n")
    }

    private func show() {
        let used = commands.filter { command in ends.values.contains { $0[command] != nil } }
        for (number, command) in zip(1..., used) {
            print(
                "  \(number) \(command.name), with all rights \(whole[command]?.outcome.exit ?? -1)"
            )
        }
        for right in rights.flatMap({ [$0] + $0.parts }) {
            guard let row = ends[right] else { continue }
            let cells = zip(1..., used).compactMap { number, command in
                row[command].map { "\(number):\($0.letter)" }
            }
            print("  \(right.name.prefix(70))  \(cells.joined(separator: " "))")
        }
    }
}
