import CNGHTTP2
import Glibc

// Connects nghttp2, which reads and writes frames, with TLS. Frames are collected in one buffer and
// sent in full records of 16 KiB, because a record and a system call for each frame would cost
// three times as much. Bytes are received in portions of 64 KiB.
//
// Calls of nghttp2 run callbacks that change the session's state, so a caller must not access that
// state during such a call.

/// Sends and receives the bytes of one HTTP/2 connection. Confined to its thread.
package final class HTTP2Wire {
    /// The connection below.
    package let connection: TLSConnection
    /// The nghttp2_session above, deleted with this object.
    package let session: OpaquePointer
    private let input: UnsafeMutableRawBufferPointer
    let output: UnsafeMutablePointer<HTTP2Output>
    /// Whether the last read filled the buffer: TLS may then hold bytes that poll does not see.
    package private(set) var mayHoldMore = false

    /// The number of bytes of frames to collect before they are written to TLS.
    private static let collected = 64 * 1024

    /// Takes over the nghttp2_session.
    package convenience init(_ connection: TLSConnection, session: OpaquePointer) {
        self.init(connection, session: session, output: Self.makeOutput())
    }

    /// Takes over the nghttp2_session, and the bytes to be written, whose positions its callbacks know.
    init(
        _ connection: TLSConnection, session: OpaquePointer,
        output: UnsafeMutablePointer<HTTP2Output>
    ) {
        (self.connection, self.session, self.output) = (connection, session, output)
        input = .allocate(byteCount: TLSContext.readBufferSize, alignment: 16)
    }

    /// Makes the bytes to be written by one connection, none yet.
    static func makeOutput() -> UnsafeMutablePointer<HTTP2Output> {
        let output = UnsafeMutablePointer<HTTP2Output>.allocate(capacity: 1)
        output.initialize(to: HTTP2Output(capacity: 2 * Self.collected))
        return output
    }

    deinit {
        nghttp2_session_del(session)
        input.deallocate()
        output.deinitialize(count: 1)
        output.deallocate()
    }

    /// The number of bytes that are not written to TLS yet.
    package var backlog: Int { output.pointee.count }
    /// The number of bytes of all frames so far: the position of the next one.
    var bytesAdded: UInt64 { output.pointee.added }
    /// The number of bytes written to TLS.
    var bytesTaken: UInt64 { output.pointee.taken }

    /// Collects the frames that nghttp2 can send now, up to the limit. Returns 0, or an error code
    /// of nghttp2.
    func collectFrames(limit: Int = .max) -> Int32 {
        while output.pointee.count < limit {
            var frame: UnsafePointer<UInt8>?
            let length = nghttp2_session_mem_send(session, &frame)
            if length <= 0 { return Int32(length) }
            output.pointee.append(UnsafeRawBufferPointer(start: frame, count: length))
        }
        return 0
    }

    /// Adds bytes that are not frames of nghttp2, after the frames so far.
    package func addRaw(_ bytes: [UInt8]) {
        _ = collectFrames()
        bytes.withUnsafeBytes { output.pointee.append($0) }
    }

    /// The result of sending.
    package enum Flow: Sendable {
        /// All bytes are sent.
        case done
        /// The socket is full: wait for this.
        case wait(Poll.Direction)
        /// The connection has ended.
        case failed(HTTP2Close)
    }

    /// Sends all frames, without waiting.
    package func flush() -> Flow {
        while true {
            let error = collectFrames(limit: Self.collected)
            if error != 0 {
                return .failed(.library(error, peer: connection.peer, detail: ""))
            }
            if output.pointee.isEmpty { return .done }
            do throws(TransportFailure) {
                switch try connection.send(output.pointee.waiting) {
                case .sent(let count): output.pointee.drop(count)
                case .wait(let direction): return .wait(direction)
                case .ended(let end): return .failed(.ended(end, peer: connection.peer))
                }
            } catch {
                return .failed(.transport(error))
            }
        }
    }

    /// The result of a read.
    package enum Arrival: Sendable {
        case bytes(Int)
        /// No bytes were available.
        case nothing
        /// nghttp2 refused the bytes, with this error code.
        case refused(Int32)
        /// The connection has ended.
        case ended(HTTP2Close)
    }

    /// Reads the available bytes, without waiting, and passes them to nghttp2.
    package func receive() -> Arrival {
        mayHoldMore = false
        let outcome: ReadOutcome
        do throws(TransportFailure) {
            outcome = try connection.read(into: input, deadline: .now)
        } catch {
            return .ended(.transport(error))
        }
        switch outcome {
        case .bytes(let count):
            mayHoldMore = count == input.count
            let start = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
            let result = nghttp2_session_mem_recv(session, start, count)
            return result < 0 ? .refused(Int32(result)) : .bytes(count)
        case .end(let end): return .ended(.ended(end, peer: connection.peer))
        case .timedOut, .interrupted: return .nothing
        }
    }

    /// Waits until the socket is ready for `direction`.
    package func wait(
        until deadline: Deadline, for direction: Poll.Direction, interrupt: Interrupt?
    ) -> Poll.Outcome {
        Poll.wait(
            connection.socket.descriptor, for: direction, deadline: deadline, interrupt: interrupt)
    }

    /// Sends the remaining bytes by the deadline, then close_notify.
    package func finish(deadline: Deadline) {
        while case .wait(let direction) = flush() {
            guard case .ready = wait(until: deadline, for: direction, interrupt: nil) else { break }
        }
        connection.closeNotify(deadline: deadline)
    }
}

/// The bytes to be written to TLS: frames are appended at the end, written bytes are removed at the
/// start.
struct HTTP2Output: ~Copyable {
    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    private var start = 0
    private var end = 0
    /// The number of bytes ever added: the position of the next frame in the stream of bytes.
    private(set) var added: UInt64 = 0

    init(capacity: Int) {
        self.capacity = capacity
        base = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { base.deallocate() }

    var count: Int { end - start }
    var isEmpty: Bool { start == end }

    /// The number of bytes written to TLS.
    var taken: UInt64 { added - UInt64(count) }

    /// The bytes that are not written yet; valid until the next call of `append`.
    var waiting: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + start, count: count)
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        if capacity - end < bytes.count { makeRoom(for: bytes.count) }
        (base + end).copyMemory(from: source, byteCount: bytes.count)
        end += bytes.count
        added += UInt64(bytes.count)
    }

    mutating func drop(_ count: Int) {
        precondition(count <= self.count, "more bytes dropped than present")
        start += count
        if start == end { (start, end) = (0, 0) }
    }

    private mutating func makeRoom(for more: Int) {
        let (waiting, needed) = (count, count + more)
        if needed > capacity {
            let grown = max(needed, capacity * 2)
            let fresh = UnsafeMutableRawPointer.allocate(byteCount: grown, alignment: 16)
            fresh.copyMemory(from: base + start, byteCount: waiting)
            base.deallocate()
            (base, capacity) = (fresh, grown)
        } else {
            memmove(base, base + start, waiting)
        }
        (start, end) = (0, waiting)
    }
}

/// The reason for the end of an HTTP/2 connection.
package struct HTTP2Close: Sendable, Equatable, CustomStringConvertible {
    /// The kinds of end.
    package enum Code: Sendable, Equatable {
        /// This side called `close`.
        case byUs
        /// The peer sent GOAWAY, and all streams up to its last one have ended.
        case goAway
        /// The peer closed in this way, with or without a GOAWAY before.
        case byPeer(ConnectionEnd)
        /// The peer violated the protocol, or exceeded a limit of ours.
        case peerBrokeProtocol
        /// The peer did not answer PING in time.
        case unresponsive
        /// TLS or the socket failed; see `failure`.
        case transport
        /// A local failure of nghttp2.
        case local
    }

    /// The kind of end.
    package let code: Code
    /// One line with the peer, the event and the next action.
    package let description: String
    /// The failure of TLS or of the socket, where there is one.
    package let failure: TransportFailure?

    package init(_ code: Code, _ description: String, failure: TransportFailure? = nil) {
        (self.code, self.description, self.failure) = (code, description, failure)
    }

    /// The end by a failure of TLS or of the socket.
    package static func transport(_ failure: TransportFailure) -> HTTP2Close {
        HTTP2Close(.transport, failure.description, failure: failure)
    }

    static func ended(_ end: ConnectionEnd, peer: String) -> HTTP2Close {
        let how =
            switch end {
            case .closeNotify: "closed the connection"
            case .cut: "closed the connection without close_notify"
            case .reset: "reset the connection"
            }
        return HTTP2Close(
            .byPeer(end), "HTTP/2 with \(peer): the peer \(how); connect again")
    }

    /// The end after a violation of the protocol.
    static func breach(_ words: String, peer: String) -> HTTP2Close {
        HTTP2Close(
            .peerBrokeProtocol, "HTTP/2 with \(peer): the peer \(words); ask its owner")
    }

    /// The end by an error code of nghttp2; `detail` is nghttp2's message.
    package static func library(_ error: Int32, peer: String, detail: String) -> HTTP2Close {
        let reason = nghttp2_strerror(error).map { String(cString: $0) } ?? "error \(error)"
        let text = detail.isEmpty ? reason : detail
        switch nghttp2_error(rawValue: error) {
        case NGHTTP2_ERR_NOMEM, NGHTTP2_ERR_CALLBACK_FAILURE, NGHTTP2_ERR_INVALID_ARGUMENT:
            return HTTP2Close(.local, "HTTP/2 with \(peer): libnghttp2 failed: \(text)")
        default: return breach("broke the protocol: \(text)", peer: peer)
        }
    }
}

/// A GOAWAY of the peer (RFC 9113 section 6.8).
package struct HTTP2GoAway: Sendable, Equatable {
    /// The last stream that the peer has processed or may still process.
    package let lastStreamID: Int32
    /// Its error code.
    package let code: HTTP2ErrorCode
    /// Its debug data, truncated to 1024 bytes; APNs sends a JSON object with a reason here.
    package let debug: [UInt8]

    static let longestDebug = 1024

    /// Copies the frame.
    package init(_ frame: nghttp2_goaway) {
        lastStreamID = frame.last_stream_id
        code = HTTP2ErrorCode(rawValue: frame.error_code)
        let length = min(frame.opaque_data_len, Self.longestDebug)
        debug = Array(UnsafeBufferPointer(start: frame.opaque_data, count: length))
    }
}

/// The error code of a reset stream or an ended connection (RFC 9113 section 7).
package struct HTTP2ErrorCode: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The number on the wire; unknown ones are kept unchanged.
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let noError = HTTP2ErrorCode(rawValue: 0x0)
    /// The peer detected a violation of the protocol.
    package static let protocolError = HTTP2ErrorCode(rawValue: 0x1)
    /// The peer has an internal error.
    package static let internalError = HTTP2ErrorCode(rawValue: 0x2)
    /// The stream was refused before any processing: the request may be sent again.
    package static let refusedStream = HTTP2ErrorCode(rawValue: 0x7)
    /// The stream is no longer wanted.
    package static let cancel = HTTP2ErrorCode(rawValue: 0x8)

    private static let names = [
        "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
        "STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
        "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
    ]

    /// The name in the standard, else the number.
    package var description: String {
        rawValue < Self.names.count ? Self.names[Int(rawValue)] : "error \(rawValue)"
    }
}
