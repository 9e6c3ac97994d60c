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
    let partitions: Set<Partition>
    let reader: ReportReader
    /// When undos last changed rows, by the database's clock. Rows that came before an undo are batches of their
    /// own, which give way to it.
    let undone: [EpochMilliseconds]
    /// The lease that the transaction renews; nil for none.
    let lease: Lease?
    /// Makes the name of a batch, a random UUID.
    let name: @Sendable () -> String

    /// Takes rows about `partitions`, as the settings name them, for a run on a host.
    package init(
        run: String, host: String, _ partitions: Set<Partition>, _ reader: ReportReader,
        undone: [EpochMilliseconds] = [], lease: Lease? = nil,
        name: @escaping @Sendable () -> String
    ) {
        (self.run, self.host, self.partitions) = (run, host, partitions)
        (self.reader, self.undone, self.lease, self.name) = (reader, undone, lease, name)
    }

    /// The first undo that came after a row; nil for none.
    package func undo(after row: EvidenceRow) -> EpochMilliseconds? {
        guard !undone.isEmpty, let arrived = row.arrived else { return nil }
        return undone.filter { $0 >= arrived }.min()
    }

    /// What becomes of a row at a time of the database's clock.
    package func fate(of row: EvidenceRow, at now: EpochMilliseconds) -> RowFate {
        let reading = reader.reading(of: row.report.map { $0 })
        // What is not Apple's needs no app of ours.
        if partitions.contains(row.partition) || (try? reading.get()) == .otherPlatform {
            return .taken(reading.mapError { Refusal("\($0)") })
        }
        // A row from the future would wait for ever, and one that uses up the numbers keeps all senders out.
        if row.id < EvidenceIntake.exhausted, let arrived = row.arrived,
            now.distance(from: arrived) < Self.patience,
            arrived <= EvidenceBounds(now: now).latest
        {
            return .left
        }
        return .taken(
            .failure(
                Refusal(
                    "the settings name no \(row.partition.shortened); name it under apps or correct the sender, "
                        + "then export this batch and import it")))
    }
}

/// What becomes of a row of `pushsweep_evidence`.
package enum RowFate {
    /// It is taken, and says this or cannot be used.
    case taken(Result<ReportReading, Refusal>)
    /// It waits for a host whose settings name its app.
    case left
}

extension Partition {
    /// The app and environment in words; a long name may be a token in the wrong column.
    package var shortened: String {
        let names = [app, environment].map { name in
            name.isEmpty ? "''" : name.count > 20 ? name.prefix(12) + "…" : name
        }
        return "app \(names[0]) in environment \(names[1])"
    }
}

/// Rows that wait for a host whose settings name their app.
package struct LeftRows: Hashable, Sendable {
    /// The most apps that are named.
    private static let most = 3

    /// Number of rows.
    package private(set) var count = 0
    private var named: [Partition] = []

    /// Counts no row.
    package init() {}

    /// Counts one row.
    package mutating func add(_ partition: Partition) {
        count += 1
        note(partition)
    }

    private mutating func note(_ partition: Partition) {
        if named.count < Self.most, !named.contains(partition) { named.append(partition) }
    }

    /// Adds others.
    package static func += (left: inout LeftRows, right: LeftRows) {
        left.count += right.count
        for partition in right.named { left.note(partition) }
    }

    /// The first apps and environments that the rows name.
    package var names: String { named.map(\.shortened).joined(separator: ", ") }
}
