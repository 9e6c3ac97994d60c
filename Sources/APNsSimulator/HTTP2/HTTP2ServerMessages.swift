import SecureTransport

/// The settings and limits of a server's HTTP/2 session, for the simulator and tests.
package struct HTTP2ServerSettings: Sendable {
    /// SETTINGS_MAX_CONCURRENT_STREAMS; nil for no limit.
    package var maximumStreams: UInt32? = 1000
    /// SETTINGS_INITIAL_WINDOW_SIZE: the number of bytes that a client may send on a new stream.
    package var initialWindow: UInt32 = 65_535
    /// The window of the connection; at least 65,535, its initial size.
    package var connectionWindow: Int32 = 4 << 20
    /// Whether WINDOW_UPDATE is sent. Without it a client cannot send more than the initial
    /// windows.
    package var opensWindows = true
    /// The most bytes of a request body; the stream of a longer one is reset.
    package var maximumBodySize = 64 * 1024
    /// The largest header list of a request, in bytes as in RFC 9113 section 10.5.1.
    package var maximumHeaderListSize = 16 * 1024
    /// Whether PING is answered.
    package var answersPings = true

    /// Makes the default settings.
    package init() {}
}

/// A complete request of a client.
package struct HTTP2ServerRequest: Sendable {
    /// Its stream, for the answer.
    package let streamID: Int32
    /// Names and values, then the body.
    var bytes: [UInt8] = []
    /// The end of each name and each value.
    var ends: [Int] = []
    var headerListSize = 0
    var bodyStart = 0

    init(_ streamID: Int32) {
        self.streamID = streamID
        bytes.reserveCapacity(1024)
        ends.reserveCapacity(32)
    }

    /// The number of fields, with pseudo-header fields and repetitions.
    var fieldCount: Int { ends.count / 2 }

    /// The name and value of the field at an index, as received.
    package func field(_ place: Int) -> (name: ArraySlice<UInt8>, value: ArraySlice<UInt8>) {
        let start = place == 0 ? 0 : ends[2 * place - 1]
        return (bytes[start..<ends[2 * place]], bytes[ends[2 * place]..<ends[2 * place + 1]])
    }

    /// The value of the first field with a name; nil without one.
    package func value(_ name: StaticString) -> ArraySlice<UInt8>? {
        let wanted = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        for place in 0..<fieldCount {
            let field = field(place)
            if field.name.elementsEqual(wanted) {
                return field.value
            }
        }
        return nil
    }

    /// The number of fields with a name.
    package func count(of name: StaticString) -> Int {
        let wanted = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        return (0..<fieldCount).count { field($0).name.elementsEqual(wanted) }
    }

    /// The body.
    package var body: ArraySlice<UInt8> { bytes[bodyStart...] }

    /// Adds a field; false when the header list exceeds `limit`. Trailers count and are dropped.
    mutating func addField(
        _ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>, limit: Int
    ) -> Bool {
        headerListSize += name.count + value.count + 32
        guard headerListSize <= limit else {
            return false
        }
        if bytes.count == bodyStart {
            bytes.append(contentsOf: name)
            ends.append(bytes.count)
            bytes.append(contentsOf: value)
            ends.append(bytes.count)
            bodyStart = bytes.count
        }
        return true
    }

    /// Adds bytes of the body; false when it exceeds `limit`.
    mutating func addBody(_ more: UnsafeBufferPointer<UInt8>, limit: Int) -> Bool {
        guard bytes.count - bodyStart + more.count <= limit else {
            return false
        }
        bytes.append(contentsOf: more)
        return true
    }
}

/// An answer of a server.
package struct HTTP2Answer: Sendable {
    /// The value of :status.
    package var status: Int
    /// The fields except :status.
    package var fields: [HTTP2Field]
    /// The body; an answer without one ends with its header list.
    package var body: [UInt8]
    /// The most bytes of body in one DATA frame; nil for as many as fit.
    package var largestPiece: Int?
    /// Whether the answer has an end.
    package var ends = true

    /// Makes an answer.
    package init(
        status: Int, fields: [HTTP2Field] = [], body: [UInt8] = [], largestPiece: Int? = nil
    ) {
        (self.status, self.fields, self.body) = (status, fields, body)
        self.largestPiece = largestPiece
    }
}
