// A token belongs to one environment of APNs, for ever. Where APNs calls it bad in the environment of its row, either
// that is the wrong one, or the token is of another app or none at all. What else APNs said decides:
//
//   it knew the token here before                 known here: credentials are to blame, not the row
//   its device registered since                   registered since: the row may have been corrected
//   it knows the token here, for another topic    other topic
//   it knows the token in the other environment   accepted or dead there: the row is under the wrong environment
//   it calls the token bad there too              neither
//   it was not asked there                        not asked
//
// Only the fourth is a proof. Silence proves nothing: a token that nobody asked about is not asked, however old.
//
// What the other environment said stands in the suspect: from 200s, 400s and 410s that any inlet heard, and from probes.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// A living row that names an environment in which APNs calls its token bad.
package struct MisplacedRow: Hashable, Sendable {
    /// The row's key.
    package let key: LedgerKey
    /// When its device registered; nil where the table does not say.
    package let registered: EpochMilliseconds?
    /// The row's values, in the order of the search's columns.
    let values: ArraySlice<SQLValue>
}

/// A token that APNs calls bad and that a living row has.
package struct MisplacedToken: Hashable, Sendable {
    package let suspect: Suspect
    /// Its living rows, without those that registered since.
    package let rows: [MisplacedRow]
    /// Whether a row of the other environment has the token as well, living or dead.
    package let isElsewhereToo: Bool

    package var token: DeviceToken { suspect.token }

    /// What is known of such a token.
    package enum Standing: String, Hashable, Sendable, CaseIterable {
        /// APNs accepted a notification for it in the other environment.
        case accepted
        /// APNs called it dead in the other environment, so it knew it there.
        case dead
        /// APNs calls it bad in both environments.
        case neither
        /// Nothing is known from the other environment.
        case notAsked = "not-asked"
        /// APNs knew it here too.
        case knownHere = "known-here"
        /// APNs knows it here, and not for the topic of the app.
        case otherTopic = "other-topic"
        /// The device registered since APNs called it bad.
        case registeredSince = "registered-since"

        /// Whether it shows that the row is under the wrong environment.
        package var isProof: Bool { self == .accepted || self == .dead }
    }

    package var standing: Standing {
        if suspect.accepted != nil { return .knownHere }
        if rows.isEmpty { return .registeredSince }
        if suspect.reason.isExactly(EvidenceSource.deviceTokenNotForTopic.rawValue) {
            return .otherTopic
        }
        guard let elsewhere = suspect.elsewhere else { return .notAsked }
        if elsewhere.answer == .accepted { return .accepted }
        return elsewhere.isKnown ? .dead : .neither
    }
}

/// Reads the suspects of an app and environment with what is known of them. Reads only.
package struct EnvironmentSearch {
    private let table: TokenTable
    private let suspects: Suspects
    private let partition: Partition
    private let lookup: RowLookup
    private let marks: InvalidTokenTable?
    /// The rows of the other environment; nil where no column tells the two apart.
    private let elsewhere: RowLookup?

    /// Prepares the reading of an app, by the table's value, and environment.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package init(_ table: TokenTable, of partition: Partition) throws(StoreFailure) {
        (self.table, self.partition) = (table, partition)
        suspects = Suspects(table)
        let (layout, connection) = (try table.layout(), table.connection)
        lookup = try RowLookup(layout, connection, partition, wholeRows: false)
        let readsMarks = layout.mark == nil ? try table.canReadTokenMarks() : false
        marks =
            readsMarks ? InvalidTokenTable(partition: partition, connection: connection) : nil
        if let other = partition.elsewhere, layout.environment != nil {
            elsewhere = try RowLookup(
                layout, connection, other, wholeRows: false, looksAlike: true)
        } else {
            elsewhere = nil
        }
    }

    /// The columns whose values a row has.
    var columns: [String] { lookup.columns }

    /// The tokens behind one, in their order, and the last suspect that was looked at; nil at the end.
    ///
    /// - Throws: any failure of a query.
    package func next(
        after last: DeviceToken?
    ) throws(StoreFailure) -> (found: [MisplacedToken], last: DeviceToken)? {
        let page = try suspects.page(of: partition, after: last)
        guard let end = page.last?.token else { return nil }
        let open = page.filter { !$0.isCleared }
        let evidence = open.map { TokenEvidence(token: $0.token, time: $0.latestOfRow) }
        let doing = "looking for the rows of suspects"
        let living = try table.retries.retrying(doing) { () throws(SQLFailure) in
            try self.living(evidence)
        }
        let there = try table.retries.retrying(doing) { () throws(SQLFailure) in
            try occupied(evidence)
        }
        let found = open.enumerated().compactMap { place, suspect in
            living[place].map {
                MisplacedToken(
                    suspect: suspect, rows: $0, isElsewhereToo: there.contains(place))
            }
        }
        return (found, end)
    }

    /// The living rows of tokens by their places, without those that registered after the evidence.
    private func living(
        _ evidence: [TokenEvidence]
    ) throws(SQLFailure) -> [Int: [MisplacedRow]] {
        guard !evidence.isEmpty else { return [:] }
        let rows = try lookup.rows(for: evidence[...], locking: false).rows
        let known = try marks?.marks(of: rows, in: evidence[...], locking: false) ?? [:]
        var living: [Int: [MisplacedRow]] = [:]
        for row in rows {
            let item = evidence[row.evidence]
            guard !row.judged(markedAt: known[item.token]?.time).isStale else { continue }
            var some = living[row.evidence] ?? []
            // Where the time cannot be read, the device may have come back.
            if row.obstacle != .registration, row.registeredAt.map({ $0 <= item.time }) ?? true {
                some.append(
                    MisplacedRow(
                        key: LedgerKey(lookup.name(of: row), of: item.token),
                        registered: row.registeredAt, values: row.values))
            }
            living[row.evidence] = some
        }
        return living
    }

    /// The places of tokens that rows of the other environment have.
    private func occupied(_ evidence: [TokenEvidence]) throws(SQLFailure) -> Set<Int> {
        guard let elsewhere, !evidence.isEmpty else { return [] }
        return Set(
            try elsewhere.rows(for: evidence[...], locking: false).rows.map(\.evidence))
    }
}

extension Suspect {
    /// A row that registered later may be right: its device may have come with another environment.
    fileprivate var latestOfRow: EpochMilliseconds {
        guard let elsewhere, elsewhere.answer == .accepted else { return last }
        return min(last, elsewhere.time)
    }
}

/// How many of the suspects of an app and environment APNs knows in the other environment.
package struct MisplacedShare: Hashable, Sendable {
    /// The app, by the table's value, and the environment.
    package let partition: Partition
    /// Suspects that APNs knows in the other environment, and those that it calls bad there too. Of others it is not known
    /// what it would say, so they count for nothing.
    package var elsewhere = 0
    package var neither = 0

    package init(_ partition: Partition, elsewhere: Int = 0, neither: Int = 0) {
        (self.partition, self.elsewhere, self.neither) = (partition, elsewhere, neither)
    }

    /// The suspects of which an answer from there is known.
    package var answered: Int { elsewhere + neither }
    /// Below this number of answers a share says nothing.
    private static let least = 10

    /// Whether nine of ten are known there. Rows are under the wrong environment one by one, as an application stores
    /// them; where nearly all tokens that APNs calls bad are of the other one, the two values of the settings may be
    /// exchanged, or the two gateways. Then the rows are right, and moving them would make them wrong.
    package var mayBeExchanged: Bool { answered >= Self.least && elsewhere * 10 >= answered * 9 }
}

extension Suspects {
    /// What APNs said in the other environment of the suspects of each app and environment, in their order.
    ///
    /// - Throws: any failure of a query.
    package func misplaced() throws(StoreFailure) -> [MisplacedShare] {
        var shares: [MisplacedShare] = []
        for count in try counts() {
            if shares.last?.partition != count.partition {
                shares.append(MisplacedShare(count.partition))
            }
            shares[shares.count - 1].elsewhere += count.elsewhere
            shares[shares.count - 1].neither += count.neither
        }
        return shares
    }

    /// Writes answers of one environment beside the tokens that are suspected in the other one, and the times at which
    /// the suspects' own environment `accepted` some of them after all. Tokens that are suspects no more are passed over.
    ///
    /// - Throws: any failure of the database.
    package func note(
        _ answers: [(token: DeviceToken, answer: Suspect.Elsewhere)], elsewhere: Partition,
        accepted: [DeviceToken: EpochMilliseconds] = [:]
    ) throws(StoreFailure) {
        guard let home = elsewhere.elsewhere, !answers.isEmpty || !accepted.isEmpty else { return }
        let now = try table.session.databaseTime()
        try table.retries.retrying("noting answers about suspects") { () throws(SQLFailure) in
            try connection.begin()
            for some in answers.sorted(by: { $0.token < $1.token }).runs(
                of: StatementShape.longest)
            {
                try Self.note(Array(some), elsewhere: elsewhere, at: now, on: connection)
            }
            for some in accepted.keys.sorted().runs(of: StatementShape.longest) {
                let known = try Self.locked(among: Array(some), in: home, on: connection)
                try Self.write(
                    some.compactMap { token in
                        known[token].map { BadToken($0, accepted: accepted[token]) }
                    }, home, at: now, on: connection)
            }
            try connection.commit()
        }
    }
}
