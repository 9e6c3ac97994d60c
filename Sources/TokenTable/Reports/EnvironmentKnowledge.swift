// A token belongs to one environment of APNs. Where APNs calls it bad in the environment of its row, either that is the
// wrong one, or the token is of another app or none at all. What else APNs said decides:
//
//   it knew the token here before             known here: credentials are to blame, not the row
//   it knows the token here, for another topic    other topic
//   it knows the token in the other environment   accepted or dead there: the row is under the wrong environment
//   it calls the token bad there too          neither
//   it was not asked there                    not asked
//   its device registered since               registered since: the row may have been corrected
//
// Only the third is a proof. Silence proves nothing: a token that nobody asked about is not asked, however old.

import APNsProtocol
import Database
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
    /// The device registered since APNs called it bad.
    case registeredSince = "registered-since"

    /// Whether it shows that the row is under the wrong environment.
    package var isProof: Bool { self == .accepted || self == .dead }

    /// What follows from what APNs said of a suspect, and from when it called it dead in the other environment.
    package init(of suspect: Suspect, deadElsewhere: Bool, hasReturned: Bool = false) {
        if suspect.accepted != nil {
            self = .knownHere
        } else if hasReturned {
            self = .registeredSince
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

extension Suspects {
    /// Those among tokens, which are in order, that are proven to be of the other environment than that of their rows.
    static func proven(
        among tokens: [DeviceToken], in partition: Partition, on connection: any SQLConnection
    ) throws(SQLFailure) -> Set<DeviceToken> {
        var proven: Set<DeviceToken> = []
        for some in tokens.runs(of: StatementShape.longest) {
            let padded = StatementShape.padded(some.map { SQLValue.bytes($0.bytes) })
            let rows = try connection.query(
                "SELECT \(columns) FROM pushsweep_suspect WHERE app = ? AND environment = ? AND token IN "
                    + "(\(placeholders(padded.count)))",
                [.text(partition.app), .text(partition.environment)] + padded)
            let dead =
                try partition.elsewhere.map { other throws(SQLFailure) in
                    try calledDead(Array(some), other, on: connection)
                } ?? [:]
            for suspect in suspects(rows, connection.dialect) where !suspect.isCleared {
                let knowledge = EnvironmentKnowledge(
                    of: suspect, deadElsewhere: dead[suspect.token] != nil)
                if knowledge.isProof { proven.insert(suspect.token) }
            }
        }
        return proven
    }
}
