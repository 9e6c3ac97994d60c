import APNsSimulator
import Foundation
import SecureTransport

/// A database server as far as its TLS handshake: greets in the MySQL protocol, takes the request
/// for TLS and shows a certificate of its choice. What a client says inside TLS is counted.
package final class EncryptedGreeter: Sendable {
    /// Where it listens on 127.0.0.1.
    package var port: Int { Int(listener.port) }
    /// The authority that signed its certificate.
    package let authority: String

    private let listener: TLSListener
    private let context: TLSServerContext
    private let greeting: [UInt8]
    private let interrupt: Interrupt
    /// Length of the request for TLS: a packet header and 32 bytes (MySQL protocol, SSLRequest).
    private static let request = 36

    /// Starts to listen, with a certificate out of a folder of them.
    package init(
        showing name: SimulatorCertificates.Name, of certificates: SimulatorCertificates,
        greeting: [UInt8]
    ) throws {
        authority = certificates.authority
        context = try TLSServerContext(
            identity: TLSIdentity.load(
                file: certificates.certificate(name), key: certificates.key(name)),
            clients: .notAsked)
        listener = try TLSListener()
        interrupt = try Interrupt()
        self.greeting = greeting
        let (listener, context, interrupt) = (listener, context, interrupt)
        let thread = Thread {
            while case .connection(let client)? = try? listener.accept(
                deadline: .never, interrupt: interrupt)
            {
                _ = client.sendPlaintext(greeting)
                guard client.readPlaintext(Self.request, deadline: .in(.seconds(5))) != nil
                else { continue }
                _ = try? client.handshake(context: context, timeout: .seconds(5))
            }
        }
        thread.start()
    }

    deinit { interrupt.trip() }
}
