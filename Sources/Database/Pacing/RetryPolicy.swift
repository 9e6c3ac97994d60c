/// Repeats operations that can fail temporarily, a few times, with pauses.
package struct RetryPolicy {
    let connection: any SQLConnection
    let pacing: Pacing

    /// Repeats on a connection, with the tries and pauses of the pacing.
    package init(connection: any SQLConnection, pacing: Pacing) {
        self.connection = connection
        self.pacing = pacing
    }

    /// Throws the failure when another try cannot help, else pauses.
    func giveUp(
        on failure: SQLFailure, after attempt: Int, doing: String
    ) throws(StoreFailure) {
        let tries =
            switch failure.kind {
            case .conflict, .lost, .overloaded, .unreachable: pacing.tries
            // Another node may have become the writable one.
            case .readOnly: 2
            case .untrusted, .permission, .configuration, .refused, .leaseLost, .other: 1
            }
        if attempt >= tries { throw StoreFailure(failure, while: doing) }
        pacing.sleep(pacing.pause(after: attempt))
    }

    /// Runs a transaction or a read until it succeeds; connects again after a loss. `failure` is
    /// that of an earlier try. Throws `StoreFailure` after the last try.
    package func retrying<R>(
        _ doing: String, after failure: SQLFailure? = nil, _ body: () throws(SQLFailure) -> R
    ) throws(StoreFailure) -> R {
        var needsConnection = failure?.needsConnection ?? false
        var attempt = 1
        while true {
            do {
                if needsConnection { try connection.connect() }
                needsConnection = false
                return try body()
            } catch {
                connection.rollBack()
                needsConnection = needsConnection || error.needsConnection
                try giveUp(on: error, after: attempt, doing: doing)
                attempt += 1
            }
        }
    }
}
