import SecureTransport

/// What a server's HTTP/2 session says of itself and accepts. For the simulator and tests.
package struct HTTP2ServerSettings: Sendable {
    /// SETTINGS_MAX_CONCURRENT_STREAMS; nil sends none, which means no limit.
    package var maximumStreams: UInt32? = 1000
    /// SETTINGS_INITIAL_WINDOW_SIZE: bytes a client may send on a new stream.
    package var initialWindow: UInt32 = 65_535
    /// The window of the whole connection; at least 65,535, which is what it begins with.
    package var connectionWindow: Int32 = 4 << 20
    /// False never gives a client more room than it began with: WINDOW_UPDATE is not sent.
    package var opensWindows = true
    /// Largest request body; a longer one is reset.
    package var maximumBodySize = 64 * 1024
    /// Largest header list of a request, as RFC 9113 section 10.5.1 counts.
    package var maximumHeaderListSize = 16 * 1024
    /// Whether PING is answered.
    package var answersPings = true

    /// The defaults.
    package init() {}
}

/// A whole request that a client sent.
package struct HTTP2ServerRequest: Sendable {
    /// Its stream, to answer on.
    package let streamID: Int32
    /// Names and values, then the body.
    var bytes: [UInt8] = []
    /// Where each name and each value ends.
    var ends: [Int] = []
    var headerListSize = 0
    var bodyStart = 0

    init(_ streamID: Int32) {
        self.streamID = streamID
        bytes.reserveCapacity(1024)
        ends.reserveCapacity(32)
    }

    /// Number of fields, pseudo-header fields and repetitions included.
    var fieldCount: Int { ends.count / 2 }

    /// A field by place: name and value as they came.
    package func field(_ place: Int) -> (name: ArraySlice<UInt8>, value: ArraySlice<UInt8>) {
        let start = place == 0 ? 0 : ends[2 * place - 1]
        return (bytes[start..<ends[2 * place]], bytes[ends[2 * place]..<ends[2 * place + 1]])
    }

    /// The value of the first field of that name; nil when there is none.
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

    /// How many fields have that name.
    package func count(of name: StaticString) -> Int {
        let wanted = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        return (0..<fieldCount).count { field($0).name.elementsEqual(wanted) }
    }

    /// What followed the fields.
    package var body: ArraySlice<UInt8> { bytes[bodyStart...] }

    /// False when the header list grows past `limit`. Trailers count and are dropped.
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

    /// False when the body grows past `limit`.
    mutating func addBody(_ more: UnsafeBufferPointer<UInt8>, limit: Int) -> Bool {
        guard bytes.count - bodyStart + more.count <= limit else {
            return false
        }
        bytes.append(contentsOf: more)
        return true
    }
}

/// What a server answers.
package struct HTTP2Answer: Sendable {
    /// :status.
    package var status: Int
    /// Fields besides :status.
    package var fields: [HTTP2Field]
    /// The body; without one the answer ends with its header list.
    package var body: [UInt8]
    /// Most bytes of body in one DATA frame; nil for as many as fit.
    package var largestPiece: Int?
    /// False leaves the answer without its end.
    package var ends = true

    /// An answer.
    package init(
        status: Int, fields: [HTTP2Field] = [], body: [UInt8] = [], largestPiece: Int? = nil
    ) {
        (self.status, self.fields, self.body) = (status, fields, body)
        self.largestPiece = largestPiece
    }
}
