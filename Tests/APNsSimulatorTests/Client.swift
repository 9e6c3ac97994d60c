import APNsSimulator
import Foundation
import SecureTransport
import TestSupport

/// Long enough to never decide a test that passes, short enough to end one that hangs.
let patience = Duration.seconds(20)

/// Certificates for all tests of this process: minting is cheap, but not free.
let shared = Result { try SharedCertificates() }

struct SharedCertificates: Sendable {
    private let folder: TemporaryFolder
    let certificates: SimulatorCertificates

    init() throws {
        folder = try TemporaryFolder()
        certificates = try SimulatorCertificates(directory: folder.file("certificates"))
    }
}

extension SimulatorCertificates {
    /// Connects to a gateway of these certificates.
    func connect(
        to address: SocketAddress, _ name: Name? = .client, alpn: [String] = [],
        handshakeTimeout: Duration = patience
    ) throws -> TLSConnection {
        let context = try TLSClientContext(
            trust: .file(authority), identity: name.map(identity), alpn: alpn)
        return try TLSConnection.connect(
            to: address, hostName: "localhost", context: context,
            connectDeadline: .in(patience), handshakeTimeout: handshakeTimeout)
    }
}

/// The bytes and the end that a client of the gateway saw.
struct Seen {
    var bytes: [UInt8] = []
    var end: ReadOutcome?
    var failure: TransportFailure.Code?
}

extension FeedbackGateway {
    /// A gateway with the tests' certificates.
    static func start(
        _ feeds: [ListSource] = [], _ change: (inout FeedbackBehaviour) -> Void = { _ in }
    ) throws -> FeedbackGateway {
        var behaviour = FeedbackBehaviour()
        change(&behaviour)
        return try FeedbackGateway(
            certificates: try shared.get().certificates, feeds: feeds, behaviour: behaviour)
    }

    /// Connects and reads to the end, at most `limit` bytes.
    func read(
        _ name: SimulatorCertificates.Name? = .client, limit: Int = .max,
        deadline: Deadline = .in(patience), handshakeTimeout: Duration = patience
    ) throws -> Seen {
        var seen = Seen()
        do {
            let connection = try shared.get().certificates.connect(
                to: address, name, handshakeTimeout: handshakeTimeout)
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65536, alignment: 1)
            defer { buffer.deallocate() }
            while seen.bytes.count < limit {
                let outcome = try connection.read(into: buffer, deadline: deadline)
                guard case .bytes(let count) = outcome else {
                    seen.end = outcome
                    break
                }
                seen.bytes += buffer[..<count]
            }
            connection.close()
        } catch let failure as TransportFailure {
            seen.failure = failure.code
        }
        return seen
    }
}
