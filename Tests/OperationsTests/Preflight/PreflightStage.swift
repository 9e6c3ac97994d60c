import APNsProtocol
import APNsSimulator
import Database
import Findings
import Foundation
import Logging
import SecureTransport
import Settings
import TestSupport
import TokenHygiene

@testable import Looks
@testable import Operations

/// A sender's stage on which the gate is asked in this process, with a clock of the test.
final class PreflightStage {
    let sender: SendStage
    /// Milliseconds by which this host's clock is ahead.
    var clockAhead: Int64 = 0

    static let registered: Int64 = 1_690_000_000_000

    init(
        _ engine: TestEngine = .sqlite, living: Range<Int> = 0..<100,
        script: ProviderScript = ProviderScript()
    ) throws {
        sender = try SendStage(engine, script: script)
        try sender.database.register(living, at: Self.registered)
    }

    /// The settings as the program reads them.
    func settings() throws -> Settings { try sender.loaded() }

    func plan(_ subject: PreflightPlan.Subject? = nil) throws -> PreflightPlan {
        try PreflightPlan(settings(), app: nil, environment: nil, subject: subject)
    }

    /// Asks the gate; `change` adjusts the plan.
    func look(
        _ subject: PreflightPlan.Subject? = nil, _ change: (inout PreflightPlan) -> Void = { _ in }
    ) throws -> PreflightReport {
        var plan = try plan(subject)
        change(&plan)
        let ahead = clockAhead
        let context = RunContext(
            now: { EpochMilliseconds(EpochMilliseconds.current.rawValue + ahead) },
            interrupt: try Interrupt(), log: Logger(label: "gate") { _ in SwiftLogNoOpLogHandler() }
        )
        return try Preflight.run(plan, context).report
    }

    /// Asks the gate about the tokens of lines.
    func look(
        lines: [String], _ change: (inout PreflightPlan) -> Void = { _ in }
    ) throws -> PreflightReport {
        let path = try sender.folder.write("tokens", lines.map { $0 + "\n" }.joined())
        return try look(.lines(path), change)
    }

    /// Registers a token in the other environment.
    func registerElsewhere(_ numbers: Range<Int>) throws {
        for number in numbers {
            try sender.database.register(
                .numbered(number), at: Self.registered, environment: "sandbox")
        }
    }

    /// Reports tokens dead as another sender does.
    func report(_ numbers: Range<Int>) throws {
        for number in numbers { try sender.database.report(DeviceToken.numbered(number).hex) }
    }

    /// Records a sweep that succeeded some hours ago.
    func recordSweep(hoursAgo: Double) throws {
        let ended = EpochMilliseconds.current.rawValue - Int64(hoursAgo * 3_600_000)
        let time = sender.database.time(ended)
        try sender.database.execute(
            "INSERT INTO pushsweep_run (id, kind, started, ended, host, counts) "
                + "VALUES (?, 'sweep', ?, ?, 'other', '{\"dryRun\":false,\"exit\":0,\"kind\":\"sweep\"}')",
            [.text(UUID().uuidString.lowercased()), time, time])
    }
}

extension PreflightReport {
    /// The severity of a rule's worst finding; nil without one.
    func severity(_ rule: String) -> Severity? {
        findings.filter { $0.rule == rule }.map(\.severity).max()
    }
}

/// The spellings of numbered tokens.
func spelled(_ numbers: some Sequence<Int>) -> [String] {
    numbers.map { DeviceToken.numbered($0).hex }
}
