import APNsProtocol
import Database
import Findings
import TokenHygiene

/// The changes that a batch would make to the rows of a partition, determined without changing or
/// locking any.
package struct Classification: Hashable, Sendable {
    /// The outcomes that the statements would have.
    package var counts = Counts()
    /// The number of living rows that would become invalid; the guard limits it.
    package var candidateRows = 0
    /// The number of rows without a registration time.
    package var undatedRows = 0
    /// The rows that would become invalid by the week of their registration, which is counted from 1970; nil for
    /// rows without one. Empty unless a time was given since which registrations are counted.
    package var weeks: [Int64?: Int] = [:]
    /// The number of rows that registered since that time.
    package var registeredSince = 0
    /// Statements that count as newer because a person said no to them.
    package var spared = 0
    /// Statements about unknown tokens of which earlier batches said as much; where that was asked.
    package var repeated = 0
    /// Whether the evidence was read to its end.
    package var isComplete = false

    /// The most tokens that are read in one transaction. A node of a Galera cluster waits for the others
    /// at the start of each, so four lists share it. They usually take some tens of milliseconds, on shards
    /// more.
    static let batch = 4 * StatementShape.longest

    /// Starts with all counts at 0.
    package init(isComplete: Bool = false) { self.isComplete = isComplete }

    /// Adds the outcomes of a chunk.
    static func += (left: inout Classification, chunk: ClassifiedChunk) {
        left.counts += chunk.counts
        left.candidateRows += chunk.invalidated
        left.undatedRows += chunk.undated
        left.registeredSince += chunk.registeredSince
        left.spared += chunk.spared
        left.weeks.merge(chunk.weeks, uniquingKeysWith: +)
    }

    /// Adds the reading of a batch.
    static func += (left: inout Classification, right: Classification) {
        left.counts += right.counts
        left.candidateRows += right.candidateRows
        left.undatedRows += right.undatedRows
        left.registeredSince += right.registeredSince
        left.spared += right.spared
        left.repeated += right.repeated
        left.weeks.merge(right.weeks, uniquingKeysWith: +)
    }
}

extension TokenTable {
    /// Classifies evidence against the rows of a partition. Reads only and locks nothing.
    /// `shouldStop` is called between batches; `report` receives the counts so far. With `since` the registrations
    /// are counted too, and with the name of the `repeating` batch what it repeats of earlier ones. `kept` gets what was
    /// read.
    ///
    /// - Throws: any failure of reading.
    package func classify(
        _ evidence: inout some EvidenceStream, in partition: Partition, policy: RemovalPolicy,
        hearing: Hearing? = nil, grace: GracePeriod? = nil, repeating batch: String? = nil,
        since: EpochMilliseconds? = nil, keeping kept: ReadRows? = nil,
        shouldStop: () -> Bool = { false },
        report: (Classification) -> Void = { _ in }
    ) throws(StoreFailure) -> Classification {
        var terms = ClassifiedChunk.Terms(layout: try layout(), policy: policy, since: since)
        (terms.hearing, terms.grace) = (hearing, grace)
        let notes = SparedTokens(connection: connection)
        let repeated = batch.map { RepeatedReports(batch: $0, connection: connection) }
        let lookup = try RowLookup(terms.layout, connection, partition, wholeRows: false)
        terms.lookup = lookup
        let readsTokenMarks = terms.layout.mark == nil ? try canReadTokenMarks() : false
        let tokenMarks =
            readsTokenMarks
            ? InvalidTokenTable(partition: partition, connection: connection) : nil
        var result = Classification()
        while !shouldStop() {
            guard try session.waitForThrottle(shouldStop: shouldStop) else { break }
            let some: [TokenEvidence]
            do {
                some = try evidence.next(Classification.batch)
            } catch {
                throw StoreFailure(.evidence, "reading evidence: \(error); run again")
            }
            if some.isEmpty {
                result.isComplete = true
                break
            }
            let read = try retries.retrying("reading rows of \(terms.layout.table)") {
                () throws(SQLFailure) in
                try connection.reading { () throws(SQLFailure) in
                    var (share, pages) = (Classification(), [ReadRows.Page?]())
                    // The rows of one list at a time are in memory.
                    for list in some.runs(of: StatementShape.longest) {
                        let found = try lookup.rows(for: list, locking: false)
                        let rows = found.rows
                        let marks = try tokenMarks?.marks(of: rows, in: list, locking: false) ?? [:]
                        if hearing != nil {
                            terms.spared = try notes.notes(on: list, of: rows.lazy.map(\.evidence))
                        }
                        let chunk = ClassifiedChunk(list, rows, marks: marks, by: terms)
                        share += chunk
                        if kept != nil {
                            pages.append(ReadRows.Page(list, found, marks, terms.spared))
                        }
                        guard let repeated else { continue }
                        share.repeated += try repeated.count(
                            of: list.indices.filter { chunk.outcomes[$0] == .unknown }.map {
                                list[$0]
                            })
                    }
                    return (share, pages.compactMap(\.self))
                }
            }
            result += read.0
            kept?.keep(read.1, lookup.columns)
            report(result)
        }
        return result
    }
}
