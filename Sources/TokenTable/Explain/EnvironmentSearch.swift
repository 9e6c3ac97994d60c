// A token belongs to one environment of APNs. Where APNs calls it bad in the environment of its row, either that is the
// wrong one, or the token is of another app or none at all. What else APNs said decides:
//
//   it knew the token here before             known here: credentials are to blame, not the row
//   it knows the token here, for another topic    other topic
//   it knows the token in the other environment   accepted or dead there: the row is under the wrong environment
//   it calls the token bad there too          neither
//   it was not asked there                    not asked
//
// Only the third is a proof. Silence proves nothing: a token that nobody asked about is not asked, however old.

import APNsProtocol
import Database
import Findings
import TokenHygiene

/// What is known of a token that APNs calls bad where its row says that it is.
package enum EnvironmentKnowledge: String, Hashable, Sendable, CaseIterable {
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

    /// Whether it shows that the row is under the wrong environment.
    package var isProof: Bool { self == .accepted || self == .dead }

    /// What follows from what APNs said of a suspect, and from when it called it dead in the other environment.
    package init(of suspect: Suspect, deadElsewhere: Bool) {
        if suspect.accepted != nil {
            self = .knownHere
        } else if suspect.reason == EvidenceSource.deviceTokenNotForTopic.rawValue {
            self = .otherTopic
        } else if suspect.elsewhere?.answer == .accepted {
            self = .accepted
        } else if deadElsewhere
            || suspect.elsewhere.map({ EvidenceSource.deaths.contains($0.answer) }) ?? false
        {
            self = .dead
        } else {
            self = suspect.elsewhere == nil ? .notAsked : .neither
        }
    }
}

/// A token that APNs calls bad and that a living row has.
package struct MisplacedToken: Hashable, Sendable {
    package let suspect: Suspect
    package let knowledge: EnvironmentKnowledge
    /// Whether a row of the other environment has the token as well.
    package let isElsewhereToo: Bool

    package var token: DeviceToken { suspect.token }

    /// The evidence that moves its row: a device that registered since may have come with another environment.
    package var evidence: TokenEvidence {
        let heard = suspect.elsewhere.map(\.time)
        let proof = knowledge == .accepted ? heard ?? suspect.last : suspect.last
        return TokenEvidence(token: token, time: min(suspect.last, proof))
    }
}

/// Reads the suspects of an app and environment with what is known of them. Reads only.
package struct EnvironmentSearch {
    private let table: TokenTable
    private let suspects: Suspects
    private let partition: Partition

    /// Prepares the reading of an app, by the table's value, and environment.
    package init(_ table: TokenTable, of partition: Partition) {
        (self.table, self.partition) = (table, partition)
        suspects = Suspects(table)
    }

    /// The tokens behind one, in their order, and the last suspect that was looked at; nil at the end.
    ///
    /// - Throws: `configuration` where the table does not fit the settings; any failure of a query.
    package func next(
        after last: DeviceToken?
    ) throws(StoreFailure) -> (found: [MisplacedToken], last: DeviceToken)? {
        let page = try suspects.page(of: partition, after: last)
        guard let end = page.last?.token else { return nil }
        let open = page.filter { !$0.isCleared }
        let here = try statuses(of: open, in: partition)
        let living = open.filter { [.living, .idle].contains(here[$0.token]) }
        let dead = try suspects.deaths(of: living, in: partition.elsewhere)
        var there: [DeviceToken: TokenStatus] = [:]
        if try table.layout().environment != nil, let other = partition.elsewhere {
            there = try statuses(of: living, in: other)
        }
        return (
            living.map {
                MisplacedToken(
                    suspect: $0,
                    knowledge: EnvironmentKnowledge(of: $0, deadElsewhere: dead[$0.token] != nil),
                    isElsewhereToo: there[$0.token].map { $0 != .unknown } ?? false)
            }, end
        )
    }

    private func statuses(
        of suspects: [Suspect], in partition: Partition
    ) throws(StoreFailure) -> [DeviceToken: TokenStatus] {
        let lookup = try table.tokenStatuses(in: partition)
        return try table.retries.retrying("looking for the rows of suspects") {
            () throws(SQLFailure) in
            try lookup.statuses(of: suspects.map(\.token))
        }
    }
}
