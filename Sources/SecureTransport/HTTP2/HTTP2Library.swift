import CNGHTTP2

/// What clients and servers have in common in nghttp2.
package enum HTTP2Library {
    /// Makes a connection with callbacks and options that live no longer than the making takes.
    ///
    /// - Parameter make: sets both, and makes the connection with them; its result is an error code
    ///   of nghttp2, or 0.
    /// - Returns: nil when memory is short.
    package static func makeSession(
        _ make: (
            _ session: inout OpaquePointer?, _ callbacks: OpaquePointer?, _ options: OpaquePointer?
        ) -> Int32
    ) -> OpaquePointer? {
        var callbacks: OpaquePointer?
        var options: OpaquePointer?
        defer {
            nghttp2_session_callbacks_del(callbacks)
            nghttp2_option_del(options)
        }
        guard nghttp2_session_callbacks_new(&callbacks) == 0, nghttp2_option_new(&options) == 0
        else { return nil }
        var session: OpaquePointer?
        return make(&session, callbacks, options) == 0 ? session : nil
    }
}
