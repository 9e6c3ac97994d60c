import PushQueue
import TokenTable

extension PushQueue {
    /// Hands all rows of a claim over; false where other senders have them.
    package func handOver(_ claim: Batch) throws -> Bool {
        try handOver(claim, rows: .max) != nil
    }
}
