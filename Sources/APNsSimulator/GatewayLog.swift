/// Counts of the notifications that a gateway received, by what became of them.
package protocol GatewayTotals: Sendable, Encodable {
    /// One notification and its treatment.
    associatedtype Record: Sendable
    /// One ended connection.
    associatedtype Connection: Sendable

    init()
    mutating func count(_ record: Record)
}

/// The log of the notifications to a gateway. With it, a test can find notifications that are missing
/// and notifications that were sent twice.
package final class GatewayLog<Totals: GatewayTotals>: Sendable {
    private struct Content {
        var totals = Totals()
        var records: [Totals.Record] = []
        var number = 0
        var ended: [Totals.Connection] = []
    }

    private let keepsRecords: Bool
    private let content = Watched(Content())

    /// Without records it only counts.
    init(keepsRecords: Bool) { self.keepsRecords = keepsRecords }

    /// The number of the next valid notification at the gateway, from 1.
    func nextNumber() -> Int {
        content.change {
            $0.number += 1
            return $0.number
        }
    }

    /// Adds notifications of one connection.
    func add(_ records: [Totals.Record], _ change: (inout Totals) -> Void = { _ in }) {
        content.change { content in
            for record in records { content.totals.count(record) }
            change(&content.totals)
            if keepsRecords { content.records += records }
        }
    }

    /// Adds a connection that has ended.
    func add(_ connection: Totals.Connection) {
        content.change { if keepsRecords { $0.ended.append(connection) } }
    }

    /// The counts so far.
    package var totals: Totals { content.present.totals }

    /// Every notification, in the order of arrival on each connection; empty for a log that only
    /// counts.
    package var records: [Totals.Record] { content.present.records }

    /// Waits until the counts are as wanted or `timeout` has passed; returns the counts so far.
    package func totals(
        within timeout: Duration = .seconds(20), until isWanted: (Totals) -> Bool
    ) -> Totals {
        content.wait(until: .in(timeout)) { isWanted($0.totals) }.totals
    }

    /// The ended connections, in the order of their ends; empty for a log that only counts.
    package var connections: [Totals.Connection] { content.present.ended }

    /// Waits until `count` connections have ended or `timeout` has passed; returns those so far.
    package func connections(
        atLeast count: Int, within timeout: Duration = .seconds(20)
    ) -> [Totals.Connection] {
        content.wait(until: .in(timeout)) { $0.ended.count >= count }.ended
    }
}
