import APNsSimulator
import Foundation
import SecureTransport
import Synchronization

/// A database server up to its TLS handshake. It greets in the MySQL protocol, takes the request
/// for TLS and shows a chosen certificate. Then it reads the login, sends one answer or nothing,
/// and ends the connection. It records all bytes that clients send inside TLS.
package final class EncryptedGreeter: Sendable {
    /// Its port on 127.0.0.1.
    package var port: Int { Int(listener.port) }
    /// The path of the authority that signed its certificate.
    package let authority: String
    /// The bytes that clients have sent inside TLS.
    package var heard: [UInt8] { notes.bytes.withLock { $0 } }

    private let listener: TLSListener
    private let context: TLSServerContext
    private let interrupt: Interrupt
    private let notes = Notes()
    /// Length of the request for TLS in bytes: a packet header and 32 bytes (MySQL protocol,
    /// SSLRequest).
    private static let request = 36

    /// The thread's data, apart from the server, so that the thread does not keep the server alive.
    private final class Notes: Sendable {
        let bytes = Mutex<[UInt8]>([])
    }

    /// Starts to listen with a certificate from a folder of certificates. Answers a login with
    /// `answer`.
    package init(
        showing name: SimulatorCertificates.Name, of certificates: SimulatorCertificates,
        greeting: [UInt8], answer: [UInt8] = []
    ) throws {
        authority = certificates.authority
        context = try TLSServerContext(
            identity: TLSIdentity.load(
                file: certificates.certificate(name), key: certificates.key(name)),
            clients: .notAsked)
        listener = try TLSListener()
        interrupt = try Interrupt()
        let (listener, context, interrupt, notes) = (listener, context, interrupt, notes)
        let thread = Thread {
            while let client = try? listener.accept(deadline: .never, interrupt: interrupt) {
                _ = client.sendPlaintext(greeting)
                guard client.readPlaintext(Self.request, deadline: .in(.seconds(5))) != nil,
                    let connection = try? client.handshake(context: context, timeout: .seconds(5))
                else { continue }
                Self.hear(connection, notes)
                guard !answer.isEmpty else { continue }
                try? answer.withUnsafeBytes { try connection.write($0, deadline: .in(.seconds(5))) }
                Self.hear(connection, notes)
            }
        }
        thread.start()
    }

    /// Records the next bytes of a client.
    private static func hear(_ connection: TLSConnection, _ notes: Notes) {
        var buffer = [UInt8](repeating: 0, count: 4_096)
        let count = buffer.withUnsafeMutableBytes { buffer -> Int in
            guard
                case .bytes(let count)? = try? connection.read(
                    into: buffer, deadline: .in(.seconds(5)))
            else { return 0 }
            return count
        }
        notes.bytes.withLock { $0 += buffer[..<count] }
    }

    deinit { interrupt.trip() }
}
