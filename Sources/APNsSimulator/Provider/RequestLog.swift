import APNsProtocol
import Synchronization

/// One request and its treatment by the gateway.
package struct ProviderRecord: Sendable, Equatable {
    /// The end of a request.
    package enum End: Sendable, Equatable {
        /// It was answered with this status.
        case answered(status: Int)
        /// It was processed, and the client got no answer.
        case unanswered
        /// It was not processed, and the client can see that: its stream is above the last one of a
        /// GOAWAY, or was reset with REFUSED_STREAM.
        case unprocessed
    }

    /// The number of its connection, counted from 1.
    package let connection: Int
    /// The device token in its path; nil where it cannot be read.
    package let token: DeviceToken?
    /// Its `apns-id`.
    package let id: APNsID
    /// Its end.
    package let end: End
    /// Whether the gateway accepted the notification (status 200, or a 200 that was not sent).
    package let isAccepted: Bool
}

/// The log of the requests to a provider gateway. With it, a test can find requests that are
/// missing and requests that were sent twice.
package final class RequestLog: Sendable {
    /// Counts of requests.
    package struct Totals: Sendable, Equatable {
        /// Requests of any kind.
        package internal(set) var requests = 0
        /// Answered requests by status.
        package internal(set) var answered: [Int: Int] = [:]
        /// Requests that were processed and got no answer.
        package internal(set) var unanswered = 0
        /// Requests that were not processed.
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

    /// Adds requests of one connection.
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

    /// Every request in the order in which connections reported them; empty for a log that only
    /// counts.
    package var records: [ProviderRecord] { content.withLock { $0.records } }

    /// The number of requests for each token, unprocessed ones included.
    package var requestsByToken: [DeviceToken: Int] {
        records.reduce(into: [:]) { counts, record in
            if let token = record.token { counts[token, default: 0] += 1 }
        }
    }

    /// The ids that were accepted more than once: notifications that a user saw twice, unless the
    /// device merged them.
    package var acceptedTwice: Set<APNsID> {
        var seen: Set<APNsID> = []
        return Set(records.filter(\.isAccepted).map(\.id).filter { !seen.insert($0).inserted })
    }
}
