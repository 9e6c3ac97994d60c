import CNGHTTP2

/// The limits of a client's HTTP/2 session.
package struct HTTP2ClientSettings: Sendable {
    /// The most requests in flight on our side; the peer may allow fewer.
    package var maximumStreams = 1000
    /// The most requests in flight before the peer's first SETTINGS. 100 is what RFC 9113 section
    /// 6.5.2 recommends as the least limit of a peer.
    var streamsBeforeSettings = 100
    /// The time from the submission of a request to the end of its answer.
    package var requestTimeout = Duration.seconds(30)
    /// The time without a byte of the peer after which a PING is sent.
    package var keepAliveInterval = Duration.seconds(60)
    /// The time without a byte after such a PING that ends the connection.
    package var pingTimeout = Duration.seconds(10)
    /// The largest header list of an answer, in bytes as in RFC 9113 section 10.5.1.
    package var maximumHeaderListSize = 16 * 1024
    /// The most bytes of an answer's body. A longer body is truncated and its stream reset.
    package var maximumBodySize = 4 * 1024
    /// The names of the answers' fields to keep, in lower case, at most 255.
    package var keptFields = ["apns-id", "apns-unique-id", "retry-after", "content-type"]
    /// The most frames between two outcomes that advance no request (PING, SETTINGS, empty DATA and
    /// the like).
    var maximumIdleFrames = 10_000
    /// The most bytes of the peer between two outcomes, ignored frames included.
    package var maximumIdleBytes = 64 << 20

    package init() {}
}

/// Computes the number of requests that a connection accepts now.
struct HTTP2Admission: Equatable {
    /// The caller's limit.
    var ownMaximum: Int
    /// The peer's limit (SETTINGS_MAX_CONCURRENT_STREAMS, RFC 9113 section 6.5.2); before its first
    /// SETTINGS, a safe assumption.
    var remoteMaximum: Int
    /// The number of streams that are open on this side or on that of the peer.
    var inFlight = 0
    /// The number of bytes that are not written to TLS yet.
    var backlog = 0
    /// Whether no request is accepted any more: after GOAWAY, without stream numbers, or at the
    /// end.
    var isClosing = false

    /// The backlog from which on no request is accepted, because the peer does not read.
    static let backlogLimit = 1 << 20

    var room: Int {
        if isClosing || backlog >= Self.backlogLimit { return 0 }
        return max(0, min(ownMaximum, remoteMaximum) - inFlight)
    }
}

// The state that nghttp2's callbacks change: all of a client's state on the fast path, in one
// struct at a fixed address. The callbacks run inside nghttp2_session_mem_recv and _mem_send.

/// The state of a client session. It is behind a pointer and not in a class, because the checks of
/// exclusive access to class properties cost 15 % here.
struct HTTP2ClientState: ~Copyable {
    var streams = HTTP2StreamTable()
    var outcomes = HTTP2OutcomeBatch()
    var admission: HTTP2Admission
    var goAway: HTTP2GoAway?
    /// Whether the peer's SETTINGS have arrived, with which it begins (RFC 9113 section 3.4).
    private(set) var hasSettings = false
    /// Whether the peer has sent something that proves it has read of us: a frame about a stream of ours, a GOAWAY that
    /// names one, the acknowledgement of SETTINGS or PING, or WINDOW_UPDATE.
    private(set) var hasBeenRead = false
    /// The bytes of the connection, which count their positions.
    let output: UnsafePointer<HTTP2Output>
    /// nghttp2's last error message, truncated.
    var libraryMessage = ""
    /// The number of frames since the last outcome that do not advance a request.
    var idleFrames = 0
    /// The number of bytes received since the last outcome.
    var idleBytes = 0
    private let maximumIdleFrames: Int
    private let maximumHeaderListSize: Int32
    private let maximumBodySize: Int
    private let keptNames: [[UInt8]]

    init(_ settings: HTTP2ClientSettings, output: UnsafePointer<HTTP2Output>) {
        self.output = output
        admission = HTTP2Admission(
            ownMaximum: settings.maximumStreams, remoteMaximum: settings.streamsBeforeSettings)
        maximumIdleFrames = settings.maximumIdleFrames
        maximumHeaderListSize = Int32(clamping: settings.maximumHeaderListSize)
        maximumBodySize = settings.maximumBodySize
        keptNames = settings.keptFields.prefix(255).map { Array($0.utf8) }
    }

    /// Adds the outcome of a request. Its slot stays in use until nghttp2 closes the stream.
    mutating func complete(_ index: Int, _ kind: HTTP2Outcome.Kind) {
        guard streams[index].phase == .open else { return }
        outcomes.add(kind, of: streams[index])
        streams.complete(index)
        (idleFrames, idleBytes) = (0, 0)
    }

    /// Adds a field of an answer; false when the header list is too large.
    mutating func addHeader(
        _ handle: HTTP2StreamTable.Handle, name: UnsafeBufferPointer<UInt8>,
        value: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard let index = streams.index(of: handle) else { return true }
        // 32 bytes for each field: RFC 7541 section 4.1.
        let size = Int32(clamping: name.count + value.count + 32)
        streams[index].headerListSize = streams[index].headerListSize &+ size
        guard streams[index].headerListSize <= maximumHeaderListSize else {
            streams[index].headersTooLarge = true
            return false
        }
        if name.first == UInt8(ascii: ":") {
            setStatus(index, value)
            return true
        }
        for place in keptNames.indices where keptNames[place].count == name.count {
            if keptNames[place].elementsEqual(name) {
                streams[index].answer.addField(UInt8(place), value)
            }
        }
        return true
    }

    /// nghttp2 has checked that :status, the only pseudo-header field of an answer, has three
    /// digits.
    private mutating func setStatus(_ index: Int, _ value: UnsafeBufferPointer<UInt8>) {
        guard value.count == 3 else { return }
        var status: UInt16 = 0
        for place in 0..<3 {
            status = status &* 10 &+ UInt16(value[place] &- UInt8(ascii: "0"))
        }
        streams[index].status = status
        streams[index].answer.removeFields()
    }

    /// Adds bytes of an answer's body; false when it exceeds the limit.
    mutating func addBody(
        _ handle: HTTP2StreamTable.Handle, _ bytes: UnsafePointer<UInt8>?, _ length: Int
    ) -> Bool {
        guard let index = streams.index(of: handle), !streams[index].isTruncated
        else { return true }
        let room = maximumBodySize - streams[index].answer.bodyLength
        streams[index].answer.addBody(bytes, min(room, length))
        streams[index].isTruncated = length > room
        return length <= room
    }

    /// Processes a complete frame; false when the peer sends too many useless frames.
    mutating func received(
        _ frame: UnsafePointer<nghttp2_frame>, _ handle: HTTP2StreamTable.Handle,
        _ session: OpaquePointer
    ) -> Bool {
        let header = frame.pointee.hd
        hasBeenRead = hasBeenRead || Self.provesReading(header)
        switch nghttp2_frame_type(UInt32(header.type)) {
        case NGHTTP2_HEADERS, NGHTTP2_DATA:
            let endsAnswer = header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
            guard endsAnswer, let index = streams.index(of: handle) else {
                // Empty DATA and interim headers do not advance an answer.
                if header.type == UInt8(NGHTTP2_DATA.rawValue), header.length > 0 { return true }
                break
            }
            streams[index].isAnswered = true
            if streams[index].wholeAt == .max {
                // Answered before the request was complete: the rest is useless (RFC 9113 8.1).
                nghttp2_submit_rst_stream(
                    session, 0, header.stream_id, NGHTTP2_CANCEL.rawValue)
            }
            return true
        case NGHTTP2_RST_STREAM:
            if let index = streams.index(of: handle) { streams[index].wasResetByPeer = true }
            return true
        case NGHTTP2_GOAWAY:
            let last = frame.pointee.goaway.last_stream_id
            // It names a stream of ours that it has seen.
            hasBeenRead = hasBeenRead || last > 0 && last < .max
            goAway = HTTP2GoAway(frame.pointee.goaway)
            admission.isClosing = true
        case NGHTTP2_SETTINGS:
            hasSettings = true
            admission.remoteMaximum = Int(
                nghttp2_session_get_remote_settings(
                    session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS))
        default: break
        }
        idleFrames += 1
        return idleFrames <= maximumIdleFrames
    }

    private static func provesReading(_ header: nghttp2_frame_hd) -> Bool {
        switch nghttp2_frame_type(UInt32(header.type)) {
        case NGHTTP2_SETTINGS, NGHTTP2_PING: header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0
        case NGHTTP2_HEADERS, NGHTTP2_DATA, NGHTTP2_RST_STREAM, NGHTTP2_WINDOW_UPDATE: true
        default: false
        }
    }

    /// Moves bytes of a request's body into the next DATA frame of its stream, at most `length`; true with the last
    /// ones, which END_STREAM goes with.
    mutating func moveBody(
        _ index: Int, _ length: Int, to target: UnsafeMutablePointer<UInt8>
    ) -> (count: Int, isLast: Bool) {
        let count = streams[index].request.move(length, to: target)
        guard streams[index].request.left == 0 else { return (count, false) }
        // nghttp2 gives the frame out whole, and its header has 9 bytes (RFC 9113 section 4.1).
        streams[index].wholeAt = output.pointee.added + 9 + UInt64(count)
        return (count, true)
    }

    /// Completes the request of a stream that nghttp2 has closed.
    mutating func closed(_ handle: HTTP2StreamTable.Handle, _ code: HTTP2ErrorCode) {
        guard let index = streams.index(of: handle) else { return }
        if streams[index].phase == .open {
            complete(
                index,
                streams[index].kind(
                    closedWith: code, bytesTaken: output.pointee.taken,
                    lastProcessed: goAway?.lastStreamID))
        }
        streams.remove(index)
        admission.inFlight = streams.count
    }

    /// Completes every request at the end of the connection.
    mutating func completeAll() {
        admission.isClosing = true
        let bytesTaken = output.pointee.taken
        while let index = streams.first {
            complete(
                index,
                streams[index].kindAtEnd(
                    bytesTaken: bytesTaken, lastProcessed: goAway?.lastStreamID))
        }
    }
}
