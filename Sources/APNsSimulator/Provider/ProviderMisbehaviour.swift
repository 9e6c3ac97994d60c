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
