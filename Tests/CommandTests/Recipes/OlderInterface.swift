import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

/// The gateway of the older interface and its feedback service, as the recipes for a private gateway
/// name them.
struct OlderGateways {
    /// Takes the notifications (port 2195).
    let binary: BinaryGateway
    /// Gives out the list of dead tokens (port 2196).
    let feedback: FeedbackGateway
    /// The dead tokens of both.
    let dead: DeadTokens
}

extension RecipeStage {
    /// Starts both gateways for an app of the settings. They live as long as the stage.
    func olderGateways(
        _ app: String, _ rules: BinaryRules = BinaryRules()
    ) throws -> OlderGateways {
        let certificates = try SweepStage.certificates.get()
        let dead = DeadTokens()
        let binary = try BinaryGateway(certificates: certificates, rules: rules, dead: dead)
        let feedback = try FeedbackGateway(certificates: certificates, dead: dead)
        gateways += [binary, feedback]
        try address(app, binary: binary.port, feedback: feedback.port)
        return OlderGateways(binary: binary, feedback: feedback, dead: dead)
    }

    /// Lets the commands find the gateways on this machine in place of those of the page. The wait for
    /// error packets is shorter than the usual one.
    func address(_ app: String, binary: UInt16, feedback: UInt16) throws {
        try copy([(try SweepStage.certificates.get().authority, "gateway-ca.pem")])
        let prefix = "PUSHSWEEP_APPS_" + app.uppercased()
        for (group, port) in [("BINARY", binary), ("FEEDBACK", feedback)] {
            environment["\(prefix)_\(group)_HOST"] = "127.0.0.1"
            environment["\(prefix)_\(group)_PORT"] = "\(port)"
        }
        environment["\(prefix)_BINARY_ERROR_WAIT"] = "300ms"
    }

    /// Copies files into the folder of the settings, readable by their owner only.
    func copy(_ files: [(from: String, to: String)]) throws {
        for (from, to) in files {
            try folder.write(to, try Data(contentsOf: URL(fileURLWithPath: from)))
        }
    }

    /// What the page's SELECT on PushChat's queue shows, the newest message first.
    func log() throws -> [[String]] {
        try database.texts(
            #require(blocks.first { $0.name == "log" }?.statements.first))
    }

    /// Waits until a query has a result, for 30 seconds at most.
    func awaitRows(_ query: String, _ expected: [[String]]) throws {
        let deadline = Deadline.in(.seconds(30))
        while try database.texts(query) != expected, !deadline.hasPassed { usleep(20_000) }
        #expect(try database.texts(query) == expected)
    }
}

/// A payload of exactly so many bytes.
func payload(bytes count: Int) -> String {
    let frame = #"{"aps":{"alert":""}}"#
    return frame.replacing(
        "\"\"", with: "\"\(String(repeating: "x", count: count - frame.utf8.count))\"")
}
