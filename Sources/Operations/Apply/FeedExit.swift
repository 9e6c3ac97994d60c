import APNsProtocol
import TokenHygiene

extension ExitStatus {
    /// The exit code for a feed whose evidence was applied. It depends on whether the gateway kept to
    /// the protocol, and on whether all of the feed could be used.
    static func following(_ end: FeedEnd, _ capture: CaptureEnd, _ books: FeedAccounting)
        -> ExitStatus
    {
        let bytes: ExitStatus =
            switch end {
            // Silence inside a tuple is a fault of the connection, not bad input. The fragment is
            // kept, and the list may continue next time.
            case .timeout: .pending
            case _ where books.quarantined > 0 || books.quarantinedBytes > 0: .quarantined
            case _ where books.outcome.refused > 0: .quarantined
            default: .done
            }
        let connection: ExitStatus =
            switch capture {
            case .closeNotify, .idle, .file: .done
            case .cut, .reset, .broken: .protocolBroken
            // The cause is on our side, and a message reports it. The gateway kept to the protocol,
            // and the bytes read are applied.
            case .crashed, .stopped, .full: .done
            }
        return worse(bytes, connection)
    }
}
