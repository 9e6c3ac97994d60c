import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// What one host takes out of `pushsweep_evidence`.
package struct IntakeTerms: Sendable {
    /// Milliseconds for which a row of an app that the settings do not name waits for another host: a day.
    package static let patience: Int64 = 86_400_000

    let run: String
    let host: String
    let apps: AppWords
    let reader: ReportReader
    /// When persons said no, by the database's clock. Rows that were heard before a no are batches of their own,
    /// which give way to it.
    let refused: [EpochMilliseconds]
    /// The last row that was there when the run began. What comes meanwhile is for the next run: a sender that goes on
    /// would keep this one from its end.
    let end: Int64
    /// The lease that the transaction renews; nil for none.
    let lease: Lease?
    /// Makes the name of a batch, a random UUID.
    let name: @Sendable () -> String

    /// Takes rows about `apps` for a run on a host.
    package init(
        run: String, host: String, _ apps: AppWords, _ reader: ReportReader,
        refused: [EpochMilliseconds] = [], end: Int64 = .max, lease: Lease? = nil,
        name: @escaping @Sendable () -> String
    ) {
        (self.run, self.host, self.apps) = (run, host, apps)
        (self.reader, self.refused, self.end) = (reader, refused, end)
        (self.lease, self.name) = (lease, name)
    }

    /// The first no of a person that came after a row was heard; nil for none.
    package func refusal(after row: EvidenceRow) -> EpochMilliseconds? {
        guard !refused.isEmpty, let heard = row.heard else { return nil }
        return refused.first(notBefore: heard)
    }

    /// What becomes of a row at a time of the database's clock.
    package func fate(of row: EvidenceRow, at now: EpochMilliseconds) -> RowFate {
        let reading = reader.reading(of: row.report.map { $0 })
        let taken = reading.mapError { Refusal("\($0)") }
        let unnamed: UnnamedApp
        do {
            return .taken(try apps.app(row.words).get(), taken)
        } catch {
            unnamed = error
        }
        // What is not Apple's needs no app of ours.
        if (try? reading.get()) == .otherPlatform { return .taken(.noApp, taken) }
        // A row from the future would wait for ever, and one that uses up the numbers keeps all senders out.
        if row.id < EvidenceIntake.exhausted, let arrived = row.arrived,
            now.distance(from: arrived) < Self.patience,
            arrived <= EvidenceBounds(now: now).latest
        {
            return .left(unnamed)
        }
        return .taken(
            .noApp,
            .failure(
                Refusal(
                    "the settings name no \(unnamed); name it under apps or correct the sender, "
                        + "then export this batch and import it")))
    }
}

/// What becomes of a row of `pushsweep_evidence`.
package enum RowFate {
    /// It is taken, and says this of an app of the settings or cannot be used.
    case taken(Partition, Result<ReportReading, Refusal>)
    /// It waits for a host whose settings name its app.
    case left(UnnamedApp)
}

/// Rows that wait for a host whose settings name their app.
package struct LeftRows: Hashable, Sendable {
    /// The most apps that are named.
    private static let most = 3

    /// Number of rows.
    package private(set) var count = 0
    private var named: [UnnamedApp] = []

    /// Counts no row.
    package init() {}

    /// Counts one row.
    package mutating func add(_ app: UnnamedApp) {
        count += 1
        note(app)
    }

    private mutating func note(_ app: UnnamedApp) {
        if named.count < Self.most, !named.contains(app) { named.append(app) }
    }

    /// Adds others.
    package static func += (left: inout LeftRows, right: LeftRows) {
        left.count += right.count
        for app in right.named { left.note(app) }
    }

    /// The first apps and environments that the rows name.
    package var names: String { named.map(\.description).joined(separator: ", ") }
}
