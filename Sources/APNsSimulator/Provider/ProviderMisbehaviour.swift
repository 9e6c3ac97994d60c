import SecureTransport

/// Faults of a provider gateway, the same on each connection; none by default. Numbers of requests
/// count the complete requests of one connection from 1.
package struct ProviderMisbehaviour: Sendable, Equatable {
    /// A GOAWAY, after which the connection is closed (RFC 9113 section 6.8).
    package struct GoAway: Sendable, Equatable {
        /// The request at which it is sent.
        package var atRequest: Int
        /// The number of requests up to then that are not processed; GOAWAY names the last stream
        /// that was processed.
        package var unprocessed = 0
        /// The number of requests before those that are processed and never answered: their outcome
        /// is unknown.
        package var unanswered = 0
        /// The last stream that GOAWAY names instead of the true one.
        package var lastStreamID: Int32?
        /// The error code.
        package var code = HTTP2ErrorCode.noError
        /// The debug data.
        package var debug = Array(#"{"reason":"Shutdown"}"#.utf8)

        /// A GOAWAY without error that leaves no request unprocessed or unanswered.
        package init(atRequest: Int) {
            self.atRequest = atRequest
        }
    }

    /// A SETTINGS frame sent on an open connection.
    package struct SettingsChange: Sendable, Equatable {
        /// The request at which it is sent.
        package var atRequest: Int
        /// SETTINGS_MAX_CONCURRENT_STREAMS.
        package var maximumStreams: UInt32?
        /// SETTINGS_INITIAL_WINDOW_SIZE.
        package var initialWindow: UInt32?

        /// Makes a change; nil leaves a setting unchanged.
        package init(atRequest: Int, maximumStreams: UInt32? = nil, initialWindow: UInt32? = nil) {
            self.atRequest = atRequest
            (self.maximumStreams, self.initialWindow) = (maximumStreams, initialWindow)
        }
    }

    /// A GOAWAY on an open connection; nil for none.
    package var goAway: GoAway?
    /// The number of first connections with GOAWAY or reset; nil for all.
    package var connections: Int?
    /// Changes of settings, each sent once per connection.
    package var settingsChanges: [SettingsChange] = []
    /// The request from which on none is answered.
    package var stallAtRequest: Int?
    /// The request at which the connection is reset. It and those without an answer so far get
    /// none.
    package var resetAtRequest: Int?

    /// No faults.
    package init() {}

    /// The treatment of a request that its number decides.
    enum Treatment: Equatable {
        /// By the rules and the script.
        case normal
        /// Processed, never answered.
        case unanswered
        /// Neither processed nor answered.
        case unprocessed
    }

    func treatment(of number: Int, onConnection connection: Int) -> Treatment {
        if let goAway, applies(to: connection) {
            let firstUnprocessed = goAway.atRequest - goAway.unprocessed + 1
            if number >= firstUnprocessed {
                return .unprocessed
            }
            if number >= firstUnprocessed - goAway.unanswered {
                return .unanswered
            }
        }
        if let stallAtRequest, number >= stallAtRequest {
            return .unanswered
        }
        return .normal
    }

    func applies(to connection: Int) -> Bool {
        connections.map { connection <= $0 } ?? true
    }
}

// A scenario says in advance what a gateway does to each connection, and to each complete request
// on it. It is data, so a test can draw one from a seed, print it and run it again. The gateway
// never misreports: a request that it calls unprocessed (REFUSED_STREAM, or a stream above the last
// one of a GOAWAY) was not processed, because a client has no way to check that.

/// The actions of a gateway, connection by connection.
package struct ProviderScenario: Sendable, Equatable {
    /// The beginning of a connection, before the first request.
    package enum Opening: Sendable, Equatable {
        /// TLS and HTTP/2.
        case normal
        /// A TCP reset before TLS.
        case reset
        /// Bytes that are not TLS.
        case plaintext
        /// No byte is sent.
        case silent
        /// TLS, then the connection is closed.
        case close
        /// TLS with a certificate of a foreign authority.
        case foreignAuthority
        /// TLS with a certificate for another host.
        case otherHost
        /// TLS without a protocol in it.
        case noProtocol

        /// The certificate and the protocols that it shows; nil without TLS.
        var credentials: (certificate: SimulatorCertificates.Name, protocols: [String])? {
            switch self {
            case .normal, .close: (.server, ["h2"])
            case .foreignAuthority: (.foreignServer, ["h2"])
            case .otherHost: (.wrongHostServer, ["h2"])
            case .noProtocol: (.server, [])
            case .reset, .plaintext, .silent: nil
            }
        }
    }

    /// The action on one complete request.
    package enum Action: Sendable, Equatable {
        /// The gateway's script decides.
        case serve
        /// It gets this answer.
        case answer(ScriptedReply)
        /// It is processed, and answered after the next request that is answered on this
        /// connection.
        case answerLate
        /// It is processed and never answered.
        case noAnswer
        /// It is processed; its answer has a header list and no end.
        case partialAnswer
        /// Its stream is reset; only with `refusedStream` it was not processed.
        case reset(HTTP2ErrorCode)
        /// It is not processed: GOAWAY names the last stream before it, and the connection ends.
        case goAway
        /// It is processed. The connection is reset, and later requests on it get no answer.
        case resetConnection
        /// It is processed. The connection is closed in good order without an answer to it.
        case closeConnection
        /// It is processed. These bytes are sent instead of an answer, and the connection stays
        /// open.
        case rawBytes([UInt8])
        /// SETTINGS_MAX_CONCURRENT_STREAMS changes, then the script decides.
        case changeStreams(UInt32)

        /// Whether earlier answers may be lost on the way, or later requests never be read.
        package var breaksConnection: Bool {
            switch self {
            case .resetConnection, .closeConnection, .rawBytes: true
            default: false
            }
        }
    }

    /// One connection.
    package struct Connection: Sendable, Equatable {
        /// Its beginning.
        package var opening: Opening
        /// The actions on its first requests.
        package var actions: [Action]
        /// The action on all further requests.
        package var rest: Action

        /// Makes a connection; by default one that the script serves.
        package init(_ opening: Opening = .normal, actions: [Action] = [], rest: Action = .serve) {
            (self.opening, self.actions, self.rest) = (opening, actions, rest)
        }

        /// The action on the request with this number, counted from 1.
        func action(_ number: Int) -> Action {
            number <= actions.count ? actions[number - 1] : rest
        }
    }

    /// The connections in the order of their arrival; the last one repeats.
    package var connections: [Connection]

    /// Makes a scenario; one without connections serves each connection by the script.
    package init(_ connections: [Connection]) {
        self.connections = connections.isEmpty ? [Connection()] : connections
    }

    /// The connection with this number, counted from 1.
    package func connection(_ number: Int) -> Connection {
        connections[min(number, connections.count) - 1]
    }
}
