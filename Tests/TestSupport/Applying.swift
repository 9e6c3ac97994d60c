import APNsProtocol
import Database
import Findings
import Foundation
import TokenHygiene
import TokenTable

/// 2024-01-01T00:00:00Z in milliseconds.
package let start: Int64 = 1_704_067_200_000

/// The app and environment of most tests.
package let chat = Partition(app: "chat", environment: "production")

/// Pacing that never waits and calls a closure instead. Chunks have 90, 135, … tokens in every run.
package func hurried(_ instead: @escaping @Sendable () -> Void = {}) -> Pacing {
    Pacing(
        firstChunk: 90, monotonic: { 0 }, sleep: { _ in instead() }, random: { 0.5 })
}

/// The statements of a stream, each as a report of its own.
package struct ExpandedReports<Stream: EvidenceStream>: ReportSource {
    private var stream: Stream
    private var waiting: [NumberedReport] = []
    private let place: (token: DeviceToken, number: Int)?

    package init(_ stream: Stream, after place: (token: DeviceToken, number: Int)? = nil) {
        (self.stream, self.place) = (stream, place)
    }

    package mutating func next(_ limit: Int) throws -> [NumberedReport] {
        while waiting.count < limit {
            let some = try stream.next(limit)
            if some.isEmpty { break }
            for item in some {
                waiting += (0..<item.statements).map {
                    NumberedReport(token: item.token, number: $0, time: item.time)
                }.filter { report in
                    place.map { ($0.token, $0.number) < (report.token, report.number) } ?? true
                }
            }
        }
        defer { waiting.removeFirst(min(limit, waiting.count)) }
        return Array(waiting.prefix(limit))
    }
}

extension TokenTable {
    /// Applies evidence as a feed of its own.
    @discardableResult
    package func apply(
        _ evidence: [TokenEvidence], app: String = "chat", environment: String = "production",
        policy: RemovalPolicy = RemovalPolicy(), feed: String = UUID().uuidString.lowercased(),
        run: String = UUID().uuidString.lowercased(), source: EvidenceSource = .feedback,
        lease: Lease? = nil, hearing: Hearing = .at(EpochMilliseconds(.max)),
        storing: Bool = false, shouldStop: () -> Bool = { false },
        report: (BatchProgress) -> Void = { _ in }
    ) throws -> BatchProgress {
        var list = EvidenceList(evidence)
        let application = BatchApplication(
            run: run, batch: feed, partition: Partition(app: app, environment: environment),
            policy: policy, source: source, lease: lease, hearing: hearing, storesReports: storing)
        return try apply(&list, application, shouldStop: shouldStop, report: report)
    }

    /// Inserts evidence as a batch of its own, unless the database has the batch or the reports are stored as they are
    /// decided, and judges it.
    @discardableResult
    package func apply(
        _ evidence: inout some EvidenceStream, _ application: BatchApplication,
        known: ReadRows? = nil,
        shouldStop: () -> Bool = { false }, report: (BatchProgress) -> Void = { _ in }
    ) throws -> BatchProgress {
        let stream = evidence
        // Faults and limits are for the judgement.
        let throttle = session.pacing.throttle
        let isPlain =
            !(connection is FaultyConnection) && !throttle.asksServers && throttle.scripted == nil
            && throttle.stopFile == nil && throttle.timeBudget == nil
        let filler = isPlain ? self : (try? TokenTable(settings)) ?? self
        let batch = ReportBatch(
            id: application.batch, run: application.run, application.partition,
            application.source, .gateway, label: "test", host: "h", opened: EpochMilliseconds(start)
        )
        guard !application.storesReports else {
            try filler.begin(batch)
            var grouped = GroupedReports(ExpandedReports(stream))
            return try applyReports(
                &grouped, application, known: known, shouldStop: shouldStop, report: report)
        }
        _ = try filler.fill(batch, lease: application.lease) { place in
            ExpandedReports(stream, after: place)
        }
        return try applyReports(
            &evidence, application, known: known, shouldStop: shouldStop, report: report)
    }

    /// Judges evidence behind a forecast whose rows are kept. `between` runs behind the forecast.
    @discardableResult
    package func applyKnown(
        _ evidence: [TokenEvidence], policy: RemovalPolicy = RemovalPolicy(),
        feed: String = UUID().uuidString.lowercased(),
        run: String = UUID().uuidString.lowercased(),
        hearing: Hearing = .at(EpochMilliseconds(.max)), storing: Bool = false,
        between: () throws -> Void = {}
    ) throws -> BatchProgress {
        let known = ReadRows()
        var list = EvidenceList(evidence)
        _ = try classify(
            &list, in: chat, policy: policy, hearing: hearing, keeping: known)
        try between()
        var again = EvidenceList(evidence)
        return try apply(
            &again,
            BatchApplication(
                run: run, batch: feed, partition: chat, policy: policy, source: .feedback,
                hearing: hearing,
                storesReports: storing), known: known)
    }

    /// Records a sweep that has not ended.
    package func record(_ run: String, at time: Int64 = start) throws {
        try session.record(
            RunRecord(id: run, kind: "sweep", started: EpochMilliseconds(time), host: "h"))
    }

    /// Classifies evidence that is in memory.
    package func classify(
        _ evidence: [TokenEvidence], app: String = "chat", environment: String = "production",
        policy: RemovalPolicy = RemovalPolicy()
    ) throws -> Classification {
        var list = EvidenceList(evidence)
        return try classify(
            &list, in: Partition(app: app, environment: environment), policy: policy)
    }
}
