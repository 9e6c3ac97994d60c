import APNsSimulator
import ArgumentParser
import SecureTransport

/// The options of the gateway's behaviour; by default that of APNs.
struct ProviderBehaviourOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Most streams that a client may have open.", valueName: "count"))
    var maxStreams: UInt32 = 1000

    @Option(
        help: ArgumentHelp("Bytes that a client may send on a new stream.", valueName: "bytes"))
    var initialWindow: UInt32 = 65_535

    @Flag(help: "Never send WINDOW_UPDATE.")
    var closedWindows = false

    @Option(
        help: ArgumentHelp(
            "Change the number of streams at the n-th request of a connection. May be given "
                + "several times.", valueName: "n=count"))
    var maxStreamsAt: [String] = []

    @Option(
        help: ArgumentHelp(
            "Send GOAWAY at the n-th request of a connection, then close it.", valueName: "n"))
    var goAwayAt: Int?

    @Option(
        help: ArgumentHelp("Requests that are not processed at GOAWAY.", valueName: "count"))
    var goAwayUnprocessed = 0

    @Option(
        help: ArgumentHelp(
            "Requests that are processed and not answered at GOAWAY.", valueName: "count"))
    var goAwayUnanswered = 0

    @Option(help: ArgumentHelp("Last stream in GOAWAY, instead of the true one.", valueName: "id"))
    var goAwayLastStream: Int32?

    @Option(help: ArgumentHelp("Error code of GOAWAY.", valueName: "code"))
    var goAwayCode: UInt32 = 0

    @Option(
        help: ArgumentHelp(
            "Answer no request from the n-th of a connection on.", valueName: "n"))
    var stallAt: Int?

    @Option(help: ArgumentHelp("Reset each connection at its n-th request.", valueName: "n"))
    var resetAt: Int?

    @Option(
        help: ArgumentHelp(
            "Apply --go-away-at and --reset-at to this many first connections.", valueName: "count")
    )
    var connections: Int?

    func validate() throws {
        for (name, value) in [
            ("--go-away-at", goAwayAt), ("--stall-at", stallAt), ("--reset-at", resetAt),
        ] {
            if let value, value < 1 {
                throw ValidationError("\(name) counts requests from 1")
            }
        }
        guard goAwayUnprocessed >= 0, goAwayUnanswered >= 0 else {
            throw ValidationError("--go-away-unprocessed and --go-away-unanswered take counts")
        }
    }

    /// The HTTP/2 settings of the options.
    func settings() -> HTTP2ServerSettings {
        var settings = HTTP2ServerSettings()
        settings.maximumStreams = maxStreams
        settings.initialWindow = initialWindow
        settings.opensWindows = !closedWindows
        return settings
    }

    /// The misbehaviour of the options. Throws `RunFailure`.
    func misbehaviour() throws -> ProviderMisbehaviour {
        var misbehaviour = ProviderMisbehaviour()
        if let goAwayAt {
            var goAway = ProviderMisbehaviour.GoAway(atRequest: goAwayAt)
            goAway.unprocessed = goAwayUnprocessed
            goAway.unanswered = goAwayUnanswered
            goAway.lastStreamID = goAwayLastStream
            goAway.code = HTTP2ErrorCode(rawValue: goAwayCode)
            misbehaviour.goAway = goAway
        }
        misbehaviour.stallAtRequest = stallAt
        misbehaviour.resetAtRequest = resetAt
        misbehaviour.connections = connections
        for text in maxStreamsAt {
            let halves = text.split(separator: "=", omittingEmptySubsequences: false)
            guard halves.count == 2, let request = Int(halves[0]), let count = UInt32(halves[1])
            else {
                throw RunFailure("reading --max-streams-at \(text): give two numbers as in 500=1")
            }
            misbehaviour.settingsChanges.append(
                .init(atRequest: request, maximumStreams: count))
        }
        return misbehaviour
    }
}
