import APNsSimulator
import Foundation
import Testing

@testable import SecureTransport

@Suite("Loading our certificate")
struct IdentityTests {
    private let workshop: Workshop
    private let authority: CertificateAuthority
    private let minted: MintedCertificate
    private var fingerprint: String { minted.identity.fingerprint }

    init() throws {
        workshop = try Workshop()
        authority = try CertificateAuthority()
        minted = try authority.issue(.client())
    }

    /// Checks that files are refused in some words.
    private func expectRefusal(
        _ words: String, _ code: IdentityFailure.Code = .content, file: String, key: String? = nil,
        passphraseFile: String? = nil, at location: SourceLocation = #_sourceLocation
    ) {
        let failure = #expect(throws: IdentityFailure.self, sourceLocation: location) {
            try TLSIdentity.load(file: file, key: key, passphraseFile: passphraseFile)
        }
        #expect(
            failure?.code == code && failure?.description.contains(words) == true,
            "\(failure as Any)", sourceLocation: location)
        #expect(failure?.description.contains("\n") == false, sourceLocation: location)
    }

    private static let locked = "it is encrypted; name a passphrase file"
    private static let wrong = "the passphrase does not open it"

    private func passphraseFile(_ text: String, mode: UInt32 = 0o600) throws -> String {
        try workshop.write(Array(text.utf8), to: "passphrase-\(UUID().uuidString)", mode: mode)
    }

    @Test("PEM with certificate and key in one file loads")
    func combined() throws {
        let path = workshop.file("both.pem")
        try minted.write(certificate: path, key: path)
        let identity = try TLSIdentity.load(file: path)
        #expect(identity.fingerprint == fingerprint)
        #expect(identity.fingerprint.count == 64)
        #expect(identity.commonName == "Apple Push Services: com.example.chat")
        #expect(
            identity.subject == "CN=Apple Push Services: com.example.chat,UID=com.example.chat")
        #expect(identity.issuer == "CN=Pushsweep test authority")
        #expect(identity.notAfter - identity.notBefore == 90 * 86400 + 3600)
    }

    @Test("PEM with the key in a separate file loads, with a certificate that all may read")
    func separate() throws {
        let (certificate, key) = (workshop.file("c.pem"), workshop.file("c.key"))
        try minted.write(certificate: certificate, key: key)
        #expect(try TLSIdentity.load(file: certificate, key: key).fingerprint == fingerprint)
        expectRefusal("no private key in it; name the key's file", file: certificate)
    }

    @Test("PEM with the chain before the certificate finds the certificate of the key")
    func chainFirst() throws {
        let path = try workshop.write(
            try authority.pem() + minted.certificatePEM() + minted.keyPEM(), to: "chain.pem")
        #expect(try TLSIdentity.load(file: path).fingerprint == fingerprint)
    }

    @Test("an encrypted PEM key opens with its passphrase, with or without a line end")
    func encrypted() throws {
        let path = workshop.file("encrypted.pem")
        try minted.write(certificate: path, key: path, passphrase: "correct horse")
        for text in ["correct horse", "correct horse\n", "correct horse\r\nsecond line\n"] {
            let secret = try passphraseFile(text)
            #expect(
                try TLSIdentity.load(file: path, passphraseFile: secret).fingerprint
                    == fingerprint)
        }
        expectRefusal(Self.locked, file: path)
        let guess = try passphraseFile("very-secret-guess")
        expectRefusal(Self.wrong, file: path, passphraseFile: guess)
        let failure = #expect(throws: IdentityFailure.self) {
            try TLSIdentity.load(file: path, passphraseFile: guess)
        }
        #expect(failure?.description.contains("very-secret-guess") == false)
    }

    @Test(
        "PKCS#12 loads, as OpenSSL writes it now and as old Keychains did",
        arguments: [MintedCertificate.PKCS12Style.modern, .legacy])
    func pkcs12(style: MintedCertificate.PKCS12Style) throws {
        // No .p12 ending: the content decides.
        let path = workshop.file("exported")
        try minted.writePKCS12(to: path, passphrase: "secret", style: style)
        let secret = try passphraseFile("secret\n")
        let identity = try TLSIdentity.load(file: path, passphraseFile: secret)
        #expect(identity.fingerprint == fingerprint)
        #expect(
            try TLSIdentity.load(
                file: path, passphraseFile: try passphraseFile("secret")
            ).fingerprint == fingerprint)
        expectRefusal(Self.locked, file: path)
        expectRefusal(Self.wrong, file: path, passphraseFile: try passphraseFile("wrong"))
    }

    @Test("PKCS#12 with an empty passphrase loads without a passphrase file")
    func emptyPassphrase() throws {
        let path = workshop.file("empty.p12")
        try minted.writePKCS12(to: path, passphrase: "")
        #expect(try TLSIdentity.load(file: path).fingerprint == fingerprint)
    }

    @Test("a server accepts a loaded identity in a handshake")
    func handshake() throws {
        let trust = workshop.file("ca.pem")
        try authority.writeCertificate(to: trust)
        let path = workshop.file("client.p12")
        try minted.writePKCS12(to: path, passphrase: "secret", style: .legacy)
        let server = try TLSServerContext(
            identity: try authority.issue(.server()).identity,
            clients: .required(authorities: trust))
        let client = try TLSClientContext(
            trust: .file(trust),
            identity: try TLSIdentity.load(
                file: path, passphraseFile: try passphraseFile("secret")))
        let loopback = try Loopback(server) { try $0.write([1]) }
        #expect(try loopback.connect(client).read(1).bytes == [1])
    }

    @Test(
        "a secret file that others may read is refused, with its mode",
        arguments: [UInt32(0o644), 0o640, 0o604, 0o660, 0o610])
    func modes(mode: UInt32) throws {
        let words = "(mode 0\(String(mode, radix: 8)))"
        let (store, key) = (try minted.pkcs12(passphrase: "secret"), try minted.keyPEM())
        let certificate = try workshop.write(try minted.certificatePEM(), to: "c.pem", mode: 0o644)
        let both = try minted.certificatePEM() + key
        for (file, key, secret) in [
            (try workshop.write(both, to: "open.pem", mode: mode), nil, nil),
            (try workshop.write(store, to: "open.p12", mode: mode), nil, nil),
            (
                try workshop.write(store, to: "good.p12"), nil,
                try passphraseFile("secret", mode: mode)
            ),
            (certificate, try workshop.write(key, to: "open.key", mode: mode), nil),
        ] as [(String, String?, String?)] {
            expectRefusal(words, .access, file: file, key: key, passphraseFile: secret)
        }
    }

    @Test("a key of another certificate, and missing, unreadable and broken files are refused")
    func broken() throws {
        let certificate = try workshop.write(try minted.certificatePEM(), to: "c.pem")
        let other = try workshop.write(try authority.issue(.client()).keyPEM(), to: "other.key")
        expectRefusal("the key belongs to none of the certificates", file: certificate, key: other)
        expectRefusal("there is no such file", file: workshop.file("none.pem"))
        expectRefusal("not a regular file", .kind, file: workshop.path)
        let brokenKey = Array("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".utf8)
        for (bytes, words) in [
            ([0, 1, 2], "neither PEM nor PKCS#12"), ([], "neither PEM nor PKCS#12"),
            ([UInt8](repeating: 0, count: 2 << 20), "larger than 1024 KiB"),
            (try minted.keyPEM(), "no certificate in it"),
            (Array(try minted.certificatePEM().dropLast(40)) + (try minted.keyPEM()), "broken"),
            (try minted.certificatePEM() + brokenKey, "the private key in it is broken"),
        ] as [([UInt8], String)] {
            expectRefusal(words, file: try workshop.write(bytes, to: "file"))
        }
    }

    @Test("validity is checked against a given time, both ends included")
    func validity() throws {
        let identity = minted.identity
        try identity.checkValidity(at: identity.notBefore)
        try identity.checkValidity(at: identity.notAfter)
        for (time, words) in [
            (identity.notAfter + 1, "it expired at"), (identity.notBefore - 1, "valid only from"),
        ] {
            let failure = #expect(throws: IdentityFailure.self) {
                try identity.checkValidity(at: time)
            }
            #expect(failure?.description.contains(words) == true)
        }
    }
}
