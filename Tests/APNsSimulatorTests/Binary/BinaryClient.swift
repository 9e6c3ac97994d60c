import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import TestSupport

extension BinaryGateway {
    /// A gateway with the tests' certificates.
    static func start(
        dead: DeadTokens = DeadTokens(), time: UInt32 = FeedbackVector.start,
        _ change: (inout BinaryRules) -> Void = { _ in }
    ) throws -> BinaryGateway {
        var rules = BinaryRules()
        change(&rules)
        return try BinaryGateway(
            certificates: try shared.get().certificates, rules: rules, dead: dead,
            now: { EpochSeconds(time) })
    }

    func connect(_ name: SimulatorCertificates.Name? = .client) throws -> BinaryClient {
        BinaryClient(try shared.get().certificates.connect(to: address, name))
    }
}

/// A plain client: it writes what it is told to, and collects what comes back.
final class BinaryClient {
    let connection: TLSConnection
    private var decoder = BinaryErrorDecoder()
    /// The number of reads that brought bytes.
    private(set) var reads = 0
    /// How the connection ended; nil while it is open.
    private(set) var end: ReadOutcome?

    init(_ connection: TLSConnection) {
        self.connection = connection
    }

    func write(_ bytes: [UInt8]) throws {
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: max(1, bytes.count), alignment: 1)
        defer { buffer.deallocate() }
        buffer.copyBytes(from: bytes)
        try connection.write(
            UnsafeRawBufferPointer(rebasing: buffer[..<bytes.count]), deadline: .in(patience))
    }

    func write(_ frames: [BinaryFrame]) throws {
        var bytes: [UInt8] = []
        for frame in frames { frame.encode(into: &bytes) }
        try write(bytes)
    }

    /// What the gateway sent up to its end of the connection, or so far at the deadline.
    func answer(by deadline: Deadline = .in(patience)) throws -> BinaryAnswer {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 1)
        defer { buffer.deallocate() }
        while end == nil {
            let outcome = try connection.read(into: buffer, deadline: deadline)
            guard case .bytes(let count) = outcome else {
                if case .end = outcome { end = outcome }
                break
            }
            reads += 1
            decoder.decode(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
        return decoder.answer
    }

    /// Ends the client's side; the gateway's may still send.
    func finish() {
        connection.closeNotify()
    }
}

/// Numbered notifications: the token and the identifier follow from the number.
enum Numbered {
    static func token(_ number: Int) -> DeviceToken {
        DeviceToken(
            (0..<32).map { UInt8(truncatingIfNeeded: $0 < 28 ? $0 : number >> (8 * (31 - $0))) })
            ?? { preconditionFailure("32 bytes are a token") }()
    }

    static func frame(_ number: Int, _ command: BinaryCommand = .framed) throws -> BinaryFrame {
        try BinaryFrame(
            command, identifier: UInt32(number), priority: .immediate, token: token(number),
            payload: BinaryVector.payload)
    }
}
