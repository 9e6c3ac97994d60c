import APNsProtocol
import TokenHygiene

extension ExitStatus {
    /// What a feed whose evidence was applied means for the exit code: whether the gateway kept to
    /// the protocol, and whether all it said could be used.
    static func following(_ end: FeedEnd, _ capture: CaptureEnd, _ books: FeedAccounting)
        -> ExitStatus
    {
        let bytes: ExitStatus =
            switch end {
            // Silence inside a tuple is the connection's fault, not bad input: the fragment is kept
            // and the list may go on next time.
            case .timeout: .pending
            case _ where books.quarantined > 0 || books.quarantinedBytes > 0: .quarantined
            case _ where books.outcome.refused > 0: .quarantined
            default: .done
            }
        let connection: ExitStatus =
            switch capture {
            case .closeNotify, .idle, .file: .done
            case .cut, .reset, .broken: .protocolBroken
            // Our own doing, and told in words: the gateway kept to the protocol, and what was read
            // is applied.
            case .crashed, .stopped, .full: .done
            }
        return worse(bytes, connection)
    }
}
