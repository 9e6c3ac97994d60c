import SecureTransport

/// What a provider gateway does wrong, or at least unkindly, on each connection. The default is
/// nothing. Numbers of requests count whole requests of one connection from 1.
package struct ProviderMisbehaviour: Sendable, Equatable {
    /// A GOAWAY, after which the connection is closed (RFC 9113 section 6.8).
    package struct GoAway: Sendable, Equatable {
        /// With this request.
        package var atRequest: Int
        /// So many requests up to then are left unprocessed; the last stream named is the last
        /// one processed.
        package var unprocessed = 0
        /// So many before those are processed and never answered: their outcome is unknown.
        package var unanswered = 0
        /// Names this last stream instead of the true one.
        package var lastStreamID: Int32?
        /// The error code.
        package var code = HTTP2ErrorCode.noError
        /// The debug data.
        package var debug = Array(#"{"reason":"Shutdown"}"#.utf8)

        /// A polite one.
        package init(atRequest: Int) {
            self.atRequest = atRequest
        }
    }

    /// SETTINGS sent in the middle.
    package struct SettingsChange: Sendable, Equatable {
        /// With this request.
        package var atRequest: Int
        /// SETTINGS_MAX_CONCURRENT_STREAMS.
        package var maximumStreams: UInt32?
        /// SETTINGS_INITIAL_WINDOW_SIZE.
        package var initialWindow: UInt32?

        /// Makes a change; nil leaves a setting alone.
        package init(atRequest: Int, maximumStreams: UInt32? = nil, initialWindow: UInt32? = nil) {
            self.atRequest = atRequest
            (self.maximumStreams, self.initialWindow) = (maximumStreams, initialWindow)
        }
    }

    /// Goes away in the middle.
    package var goAway: GoAway?
    /// How many connections of the gateway go away or are cut; nil for all.
    package var connections: Int?
    /// Changes settings in the middle, each once.
    package var settingsChanges: [SettingsChange] = []
    /// From this request on nothing is answered.
    package var stallAtRequest: Int?
    /// At this request the connection is reset; it and those that are not answered yet stay
    /// unanswered.
    package var resetAtRequest: Int?

    /// As APNs behaves.
    package init() {}

    /// What becomes of a request by its number alone.
    enum Fate: Equatable {
        case served
        /// Processed, never answered.
        case unanswered
        /// Neither processed nor answered.
        case dropped
    }

    func fate(of number: Int, onConnection connection: Int) -> Fate {
        if let goAway, applies(to: connection) {
            let firstDropped = goAway.atRequest - goAway.unprocessed + 1
            if number >= firstDropped {
                return .dropped
            }
            if number >= firstDropped - goAway.unanswered {
                return .unanswered
            }
        }
        if let stallAtRequest, number >= stallAtRequest {
            return .unanswered
        }
        return .served
    }

    func applies(to connection: Int) -> Bool {
        connections.map { connection <= $0 } ?? true
    }
}

// A gateway without manners, spelled out beforehand: what it does to each connection when it comes and
// to each whole request on it. A plot is data, so a test can draw one from a seed, print it, and play it
// again. It does anything but lie: what it calls unprocessed (REFUSED_STREAM, a stream above the last
// one of a GOAWAY) it has not processed, because no client can know better.

/// What a gateway does, connection by connection.
package struct ProviderPlot: Sendable, Equatable {
    /// What a client meets before its first request.
    package enum Greeting: Sendable, Equatable {
        /// TLS and HTTP/2.
        case welcome
        /// A TCP reset before TLS.
        case hangUp
        /// Bytes that are no TLS.
        case plaintext
        /// Nothing.
        case mute
        /// TLS, then the end.
        case leave
    }

    /// What becomes of one whole request.
    package enum Act: Sendable, Equatable {
        /// The gateway's script decides.
        case serve
        /// It is answered with this.
        case answer(ScriptedReply)
        /// It is processed, and answered behind the next one that is answered on this connection.
        case hold
        /// It is processed and never answered.
        case silence
        /// It is processed; its answer begins and never ends.
        case half
        /// Its stream is reset; only with `refusedStream` it was not processed.
        case reset(HTTP2ErrorCode)
        /// Not processed: GOAWAY names the last stream before it, and the connection ends.
        case goAway
        /// Processed; the connection is reset, and what came behind it stays without an answer.
        case cut
        /// Processed; the connection is closed in good order without an answer to it.
        case close
        /// Processed; these bytes come in place of an answer, and the connection goes on.
        case bytes([UInt8])
        /// SETTINGS_MAX_CONCURRENT_STREAMS changes, then the script decides.
        case streams(UInt32)

        /// Whether answers given before may be lost on their way, or later requests never be read.
        package var isViolent: Bool {
            switch self {
            case .cut, .close, .bytes: true
            default: false
            }
        }
    }

    /// One connection.
    package struct Scene: Sendable, Equatable {
        /// How it begins.
        package var greeting: Greeting
        /// What its first requests meet.
        package var acts: [Act]
        /// What all further ones meet.
        package var rest: Act

        /// A connection.
        package init(_ greeting: Greeting = .welcome, acts: [Act] = [], rest: Act = .serve) {
            (self.greeting, self.acts, self.rest) = (greeting, acts, rest)
        }

        /// What the request with this number meets, counted from 1.
        func act(_ number: Int) -> Act { number <= acts.count ? acts[number - 1] : rest }
    }

    /// The connections in the order of their arrival; the last one repeats.
    package var scenes: [Scene]

    /// A plot of at least one connection.
    package init(_ scenes: [Scene]) { self.scenes = scenes.isEmpty ? [Scene()] : scenes }

    /// The connection with this number, counted from 1.
    package func scene(_ connection: Int) -> Scene {
        scenes[min(connection, scenes.count) - 1]
    }
}
