import APNsProtocol

/// What an answer of APNs says against the token of one notification. The sender that heard it keeps it until it
/// is a report of a batch.
package struct HeardReport: Hashable, Sendable {
    /// The key of the notification's row in the queue.
    package let row: Int64
    package let token: DeviceToken
    package let source: EvidenceSource
    /// The time since which APNs calls the token dead.
    package let time: EpochMilliseconds
    /// When the sender had the answer, by the database's clock; nil: now.
    package var heard: EpochMilliseconds?

    package init(
        row: Int64, token: DeviceToken, source: EvidenceSource, time: EpochMilliseconds,
        heard: EpochMilliseconds? = nil
    ) {
        (self.row, self.token, self.source, self.time) = (row, token, source, time)
        self.heard = heard
    }
}

/// Where a sender heard answers.
package struct ReportOrigin: Hashable, Sendable {
    /// The app and the environment, as the settings name them.
    package let partition: Partition
    /// `host:port` of the gateway.
    package let gateway: String

    package init(_ partition: Partition, gateway: String) {
        (self.partition, self.gateway) = (partition, gateway)
    }
}
