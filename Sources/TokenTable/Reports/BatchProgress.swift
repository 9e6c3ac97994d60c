import APNsProtocol
import TokenHygiene

/// The progress of a batch as stored in its checkpoint.
package struct BatchProgress: Hashable, Sendable {
    /// The last token judged; nil before the first. What follows it is still to be judged.
    package var position: DeviceToken?
    /// The outcomes of the statements up to `position`.
    package var counts = Counts()
    /// The number of rows marked, deleted or advanced so far.
    package var rowsChanged = 0
    /// The number of living rows that became invalid so far.
    package var rowsInvalidated = 0
    /// The number of rows that could not be judged or refused the change; the ledger names them.
    package var rowsRefused = 0
    /// Whether the whole batch is applied.
    package var isApplied = false
}

extension BatchProgress {
    /// The progress of a forecast, which changes no row.
    package init(counts: Counts) {
        self.init()
        self.counts = counts
    }
}
