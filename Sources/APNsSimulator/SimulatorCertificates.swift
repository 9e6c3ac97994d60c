import Encodings
import FoundationEssentials
import Glibc
import SecureTransport

// A directory of certificates for the simulator's gateways and for their clients: valid ones, and
// an invalid one for each check that a client or a gateway must make.
//
// All are made at once by two temporary authorities whose keys are not kept. So a directory in
// which a file is missing, or in which the valid certificates expire soon, is made again
// completely.

/// The certificates of a simulator, in a directory.
package struct SimulatorCertificates: Sendable {
    /// A certificate with its key; the raw value is the file name without extension.
    package enum Name: String, Sendable, CaseIterable {
        /// The gateway's, for localhost, 127.0.0.1 and ::1.
        case server
        /// The gateway's, expired an hour ago.
        case expiredServer = "expired-server"
        /// The gateway's, valid from tomorrow.
        case notYetValidServer = "not-yet-valid-server"
        /// The gateway's, of the foreign authority.
        case foreignServer = "foreign-server"
        /// The gateway's, with another host name.
        case wrongHostServer = "wrong-host-server"
        /// The sender's, with the names of Apple's certificates.
        case client
        /// The sender's, for several topics: those of `severalTopics`.
        case clientOfSeveralTopics = "several-topics-client"
        /// The sender's, expired an hour ago.
        case expiredClient = "expired-client"
        /// The sender's, of the foreign authority.
        case foreignClient = "foreign-client"

        var request: CertificateRequest {
            var request: CertificateRequest =
                switch self {
                case .server, .expiredServer, .notYetValidServer, .foreignServer: .server()
                case .wrongHostServer:
                    .server(
                        commonName: "gateway.example.org", dnsNames: ["gateway.example.org"],
                        addresses: [])
                case .client, .expiredClient, .foreignClient: .client()
                case .clientOfSeveralTopics: .client(topics: SimulatorCertificates.severalTopics)
                }
            switch self {
            case .expiredServer, .expiredClient:
                (request.notBefore, request.notAfter) = (-86400, -3600)
            case .notYetValidServer:
                (request.notBefore, request.notAfter) = (86400, 2 * 86400)
            default:
                break
            }
            return request
        }

        var isForeign: Bool {
            self == .foreignServer || self == .foreignClient
        }
    }

    /// The topics of `clientOfSeveralTopics`: an app's own, and those that Apple adds to it.
    package static let severalTopics = [
        "com.example.chat", "com.example.chat.voip", "com.example.chat.complication",
    ]

    /// The directory, mode 0700.
    package let directory: String

    /// The passphrase of `clientPKCS12`.
    static let passphrase = "simulator"

    /// The least number of days for which the valid certificates must be valid to be used again.
    private static let reserveDays: Int64 = 7

    /// Makes the certificates in `directory`, unless all are present and the valid ones are valid
    /// for another week. Throws `Refusal` or `IdentityFailure`.
    package init(directory: String) throws {
        self.directory = directory
        if isUsable {
            return
        }
        do {
            try FileManager.default.createDirectory(
                atPath: directory, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
        } catch {
            throw Refusal(
                "creating \(directory): \(TransportFailure.systemMessage(errno)); choose a writable directory"
            )
        }
        try mint()
    }

    /// The authority that gateway and clients trust.
    package var authority: String { file("ca.pem") }
    /// An authority that is not trusted.
    package var foreignAuthority: String { file("foreign-ca.pem") }
    /// The client's certificate and key as PKCS#12.
    package var clientPKCS12: String { file("client.p12") }
    /// The file with the passphrase of `clientPKCS12`.
    package var clientPassphraseFile: String { file("client.passphrase") }

    /// The PEM file of a certificate.
    package func certificate(_ name: Name) -> String { file("\(name.rawValue).pem") }

    /// The PEM file of its key, mode 0600.
    package func key(_ name: Name) -> String { file("\(name.rawValue).key") }

    /// Certificate and key, loaded. Throws `IdentityFailure`.
    package func identity(_ name: Name) throws(IdentityFailure) -> TLSIdentity {
        try .load(file: certificate(name), key: key(name))
    }

    /// The context of a gateway that shows a certificate and requires one of its clients, which it may
    /// refuse all the same.
    func context(
        _ name: Name, refusing: Bool = false,
        versions: ClosedRange<TLSServerContext.Version> = .tls12 ... .tls13
    ) throws -> TLSServerContext {
        try TLSServerContext(
            identity: identity(name),
            clients: refusing
                ? .refused(authorities: authority) : .required(authorities: authority),
            versions: versions)
    }

    private func file(_ name: String) -> String { directory + "/" + name }

    private var isUsable: Bool {
        let files =
            Name.allCases.flatMap { [certificate($0), key($0)] }
            + [authority, foreignAuthority, clientPKCS12, clientPassphraseFile]
        guard files.allSatisfy(FileManager.default.fileExists(atPath:)) else {
            return false
        }
        let reserve = Int64(Date().timeIntervalSince1970) + Self.reserveDays * 86400
        return [Name.server, .client].allSatisfy { name in
            guard let identity = try? identity(name) else {
                return false
            }
            return identity.notAfter > reserve
        }
    }

    private func mint() throws(Refusal) {
        let own = try CertificateAuthority(commonName: "Pushsweep simulator authority")
        let foreign = try CertificateAuthority(commonName: "Foreign authority")
        try own.writeCertificate(to: authority)
        try foreign.writeCertificate(to: foreignAuthority)
        for name in Name.allCases {
            let minted = try (name.isForeign ? foreign : own).issue(name.request)
            try minted.write(certificate: certificate(name), key: key(name))
            if name == .client {
                try minted.writePKCS12(to: clientPKCS12, passphrase: Self.passphrase)
            }
        }
        try CertificateMint.write(
            Array("\(Self.passphrase)\n".utf8), to: clientPassphraseFile, mode: 0o600)
    }
}

extension Refusal {
    static func openSSL(_ action: String) -> Refusal {
        Refusal("\(action): \(OpenSSLFault.drain().text)")
    }
}
