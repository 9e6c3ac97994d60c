import CNGHTTP2
import SecureTransport

/// A server session's state, changed by nghttp2's callbacks. Lives where a pointer leads.
struct HTTP2ServerState: ~Copyable {
    /// What is being sent of an answer's body.
    struct Body {
        var bytes: [UInt8]
        var sent = 0
        var largestPiece: Int
        var ends: Bool
    }

    /// Requests that are still arriving.
    var arriving: [Int32: HTTP2ServerRequest] = [:]
    /// Whole requests that nobody has taken yet, from `nextTaken` on.
    var whole: [HTTP2ServerRequest] = []
    var nextTaken = 0
    var bodies: [Int32: Body] = [:]
    var goAway: HTTP2GoAway?
    var libraryMessage = ""
    /// Streams that a client has opened.
    var opened = 0
    /// RST_STREAM frames that a client has sent.
    var resets = 0
    let maximumBodySize: Int
    let maximumHeaderListSize: Int

    init(_ settings: HTTP2ServerSettings) {
        maximumBodySize = settings.maximumBodySize
        maximumHeaderListSize = settings.maximumHeaderListSize
    }

    mutating func begin(_ streamID: Int32) {
        opened += 1
        arriving[streamID] = HTTP2ServerRequest(streamID)
    }

    /// False when the header list is too large.
    mutating func header(
        _ streamID: Int32, _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard let place = arriving.index(forKey: streamID) else {
            return true
        }
        // In place: a copy taken out would be copied once more when it is changed.
        let fits = arriving.values[place].addField(name, value, limit: maximumHeaderListSize)
        if !fits {
            arriving.remove(at: place)
        }
        return fits
    }

    /// False when the body is too large.
    mutating func data(_ streamID: Int32, _ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let place = arriving.index(forKey: streamID) else {
            return true
        }
        let fits = arriving.values[place].addBody(bytes, limit: maximumBodySize)
        if !fits {
            arriving.remove(at: place)
        }
        return fits
    }

    mutating func received(_ frame: UnsafePointer<nghttp2_frame>) {
        let header = frame.pointee.hd
        switch nghttp2_frame_type(UInt32(header.type)) {
        case NGHTTP2_HEADERS, NGHTTP2_DATA:
            if header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0,
                let request = arriving.removeValue(forKey: header.stream_id)
            {
                whole.append(request)
            }
        case NGHTTP2_RST_STREAM:
            resets += 1
        case NGHTTP2_GOAWAY:
            goAway = HTTP2GoAway(frame.pointee.goaway)
        default:
            break
        }
    }

    mutating func closed(_ streamID: Int32) {
        arriving[streamID] = nil
        bodies[streamID] = nil
    }

    mutating func takeRequest() -> HTTP2ServerRequest? {
        guard nextTaken < whole.count else {
            return nil
        }
        defer {
            nextTaken += 1
            if nextTaken == whole.count {
                whole.removeAll(keepingCapacity: true)
                nextTaken = 0
            }
        }
        return whole[nextTaken]
    }

    var hasRequest: Bool { nextTaken < whole.count }

    /// Moves the next piece of an answer's body; -1 when there is none to come for now.
    mutating func read(
        _ streamID: Int32, into target: UnsafeMutablePointer<UInt8>, _ length: Int
    ) -> (count: Int, isLast: Bool) {
        guard var body = bodies.removeValue(forKey: streamID) else {
            return (0, true)
        }
        let count = min(length, body.bytes.count - body.sent, body.largestPiece)
        if count == 0, !body.ends {
            bodies[streamID] = body
            return (-1, false)
        }
        body.bytes.withUnsafeBufferPointer { bytes in
            if let start = bytes.baseAddress {
                target.update(from: start + body.sent, count: count)
            }
        }
        body.sent += count
        let isLast = body.sent == body.bytes.count && body.ends
        if !isLast {
            bodies[streamID] = body
        }
        return (count, isLast)
    }
}
