import COpenSSL

/// The reasons that OpenSSL left on this thread's error queue, oldest first (ERR_get_error(3)).
package struct OpenSSLFault: Sendable {
    struct Entry: Sendable {
        let library: Int32
        let reason: Int32
        let text: String
    }

    let entries: [Entry]

    /// Empties the queue: what stays there would be taken for the reason of a later call.
    package static func drain() -> OpenSSLFault {
        var entries: [Entry] = []
        while true {
            let code = ERR_get_error()
            if code == 0 {
                return OpenSSLFault(entries: entries)
            }
            let (library, reason) = (ERR_GET_LIB(code), ERR_GET_REASON(code))
            // ERR_reason_error_string has no words for an errno.
            let text =
                library == ERR_LIB_SYS
                ? TransportFailure.systemMessage(reason)
                : ERR_reason_error_string(code).map { String(cString: $0) } ?? "error \(code)"
            entries.append(Entry(library: library, reason: reason, text: text))
        }
    }

    /// The first reason given by libssl, where the cause is; later entries only say who passed it
    /// on.
    var reason: Int32? {
        entries.first { $0.library == ERR_LIB_SSL }?.reason
    }

    /// The alert the peer sent (RFC 8446 section 6), if that is the cause.
    var alert: Int32? {
        guard let reason, reason >= SSL_AD_REASON_OFFSET, reason < SSL_AD_REASON_OFFSET + 256
        else {
            return nil
        }
        return reason - SSL_AD_REASON_OFFSET
    }

    /// Whether an algorithm was missing, as old PKCS#12 files' are without the legacy provider.
    var isUnsupportedAlgorithm: Bool {
        entries.contains { $0.text.contains("unsupported") }
    }

    /// OpenSSL's words for the first reason, in quotes; alert names keep their protocol prefix.
    package var text: String {
        "\"\(entries.first?.text ?? "no reason given")\""
    }
}

extension OpenSSLFault {
    /// Empties the queue of reasons that do not matter.
    package static func discard() {
        ERR_clear_error()
    }
}
