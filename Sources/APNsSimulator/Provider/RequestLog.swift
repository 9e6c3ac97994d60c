import APNsProtocol
import Synchronization

/// What the gateway did with one request.
package struct ProviderRecord: Sendable, Equatable {
    /// What became of a request.
    package enum End: Sendable, Equatable {
        /// Answered with this status.
        case answered(status: Int)
        /// Processed, but the client was left without an answer.
        case unanswered
        /// Not processed, and the client can know it: above the last stream of a GOAWAY, or reset
        /// with REFUSED_STREAM.
        case unprocessed
    }

    /// The connection it came on, counted from 1.
    package let connection: Int
    /// Whom it was for, where that could be read.
    package let token: DeviceToken?
    /// Its name.
    package let id: APNsID
    /// What became of it.
    package let end: End
    /// Whether the gateway accepted the notification (status 200, or a 200 that was not sent).
    package let isAccepted: Bool
}

/// Everything a provider gateway was sent, so that a test can say what was never sent, and what
/// was sent twice.
package final class ProviderBook: Sendable {
    /// What a book counts.
    package struct Totals: Sendable, Equatable {
        /// Requests of any kind.
        package internal(set) var requests = 0
        /// By status.
        package internal(set) var answered: [Int: Int] = [:]
        /// Processed and left without an answer.
        package internal(set) var unanswered = 0
        /// Not processed.
        package internal(set) var unprocessed = 0
    }

    private struct Content {
        var totals = Totals()
        var records: [ProviderRecord] = []
    }

    private let keepsRecords: Bool
    private let content = Mutex(Content())

    init(keepsRecords: Bool) {
        self.keepsRecords = keepsRecords
    }

    /// Adds what one connection did since the last time.
    func add(_ records: [ProviderRecord]) {
        content.withLock { content in
            for record in records {
                content.totals.requests += 1
                switch record.end {
                case .answered(let status): content.totals.answered[status, default: 0] += 1
                case .unanswered: content.totals.unanswered += 1
                case .unprocessed: content.totals.unprocessed += 1
                }
            }
            if keepsRecords {
                content.records += records
            }
        }
    }

    /// The counts so far.
    package var totals: Totals { content.withLock { $0.totals } }

    /// Every request in the order in which connections reported them; empty for a book that only
    /// counts.
    package var records: [ProviderRecord] { content.withLock { $0.records } }

    /// How often each token was on the wire, unprocessed requests included.
    package var requestsByToken: [DeviceToken: Int] {
        records.reduce(into: [:]) { counts, record in
            if let token = record.token { counts[token, default: 0] += 1 }
        }
    }

    /// The names that were accepted more than once: notifications a user saw twice, unless the
    /// device merged them.
    package var acceptedTwice: Set<APNsID> {
        var seen: Set<APNsID> = []
        return Set(records.filter(\.isAccepted).map(\.id).filter { !seen.insert($0).inserted })
    }
}
