import APNsSimulator
import ArgumentParser

/// `apns-simulator certificates`: writes certificates without serving.
struct CertificatesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "certificates",
        abstract: "Write the certificates that gateway and clients use, good and bad ones.",
        discussion: """
            Files already there are used again while all are present and the good ones stay valid \
            for a week; otherwise all are made anew. Keys, the PKCS#12 file and its passphrase \
            file have mode 0600.

            ca.pem, foreign-ca.pem: the authority to trust, and one not to trust.
            server, expired-server, not-yet-valid-server, foreign-server, wrong-host-server,
            client, expired-client, foreign-client: each as .pem and .key.
            client.p12, client.passphrase: the client's certificate as PKCS#12.

            Prints one JSON object with the paths a client needs.
            """)

    @Option(help: "Where the certificates are; made when missing.")
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
