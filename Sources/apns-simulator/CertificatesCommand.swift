import APNsSimulator
import ArgumentParser

/// `apns-simulator certificates`: writes certificates and starts no gateway.
struct CertificatesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "certificates",
        abstract: "Write the certificates of gateway and clients, valid and invalid ones.",
        discussion: """
            Existing files are used again if all are present and the valid certificates are valid \
            for another week; else all are made again. Keys, the PKCS#12 file and its passphrase \
            file have mode 0600.

            ca.pem, foreign-ca.pem: the trusted authority, and one that is not trusted.
            server, expired-server, not-yet-valid-server, foreign-server, wrong-host-server,
            client, several-topics-client, expired-client, foreign-client: each as .pem and .key.
            client.p12, client.passphrase: the client's certificate as PKCS#12.

            Prints one JSON object with the paths a client needs.
            """)

    @Option(help: "Directory of the certificates; created when missing.")
    var directory: String

    func run() throws {
        try Output.line(CertificatePaths(try SimulatorCertificates(directory: directory)))
    }
}

/// The paths a client needs.
struct CertificatePaths: Encodable {
    let ca: String
    let certificate: String
    let key: String
    let pkcs12: String
    let passphraseFile: String

    enum CodingKeys: String, CodingKey {
        case ca
        case certificate
        case key
        case pkcs12
        case passphraseFile = "passphrase-file"
    }

    init(_ certificates: SimulatorCertificates) {
        ca = certificates.authority
        certificate = certificates.certificate(.client)
        key = certificates.key(.client)
        pkcs12 = certificates.clientPKCS12
        passphraseFile = certificates.clientPassphraseFile
    }
}
