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

    private func code(
        file: String, key: String? = nil, passphraseFile: String? = nil
    ) -> IdentityFailure.Code? {
        failure(file: file, key: key, passphraseFile: passphraseFile)?.code
    }

    private func failure(
        file: String, key: String? = nil, passphraseFile: String? = nil
    ) -> IdentityFailure? {
        do {
            _ = try TLSIdentity.load(file: file, key: key, passphraseFile: passphraseFile)
            return nil
        } catch {
            return error
        }
    }

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
        #expect(
            try TLSIdentity.load(file: path).facts
                == identity.facts)
    }

    @Test("PEM with the key in a separate file loads, with a certificate that all may read")
    func separate() throws {
        let (certificate, key) = (workshop.file("c.pem"), workshop.file("c.key"))
        try minted.write(certificate: certificate, key: key)
        #expect(try TLSIdentity.load(file: certificate, key: key).fingerprint == fingerprint)
        #expect(code(file: certificate) != nil)
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
        #expect(code(file: path) == .passphraseNeeded)
        #expect(code(file: path, passphraseFile: try passphraseFile("battery")) == .wrongPassphrase)
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
        #expect(code(file: path) == .passphraseNeeded)
        #expect(code(file: path, passphraseFile: try passphraseFile("wrong")) == .wrongPassphrase)
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
        let both = try workshop.write(
            try minted.certificatePEM() + minted.keyPEM(), to: "open.pem", mode: mode)
        #expect(code(file: both) == .readableByOthers(mode: mode))
        #expect(
            failure(file: both)?.description.contains("mode 0\(String(mode, radix: 8))") == true)
        let store = try workshop.write(
            try minted.pkcs12(passphrase: "secret"), to: "open.p12", mode: mode)
        #expect(code(file: store) == .readableByOthers(mode: mode))
        let good = try workshop.write(
            try minted.pkcs12(passphrase: "secret"), to: "good.p12", mode: 0o600)
        let secret = try passphraseFile("secret", mode: mode)
        #expect(code(file: good, passphraseFile: secret) == .readableByOthers(mode: mode))
        let certificate = try workshop.write(try minted.certificatePEM(), to: "c.pem", mode: 0o644)
        let key = try workshop.write(try minted.keyPEM(), to: "open.key", mode: mode)
        #expect(code(file: certificate, key: key) == .readableByOthers(mode: mode))
    }

    @Test("a key of another certificate is a mismatch")
    func mismatch() throws {
        let other = try authority.issue(.client())
        let certificate = try workshop.write(try minted.certificatePEM(), to: "c.pem")
        let key = try workshop.write(try other.keyPEM(), to: "other.key")
        #expect(code(file: certificate, key: key) == .keyMismatch)
    }

    @Test("missing, unreadable and broken files have different errors")
    func broken() throws {
        #expect(code(file: workshop.file("none.pem")) == .missing)
        #expect(code(file: workshop.path) == .unreadable)
        #expect(code(file: try workshop.write([0, 1, 2], to: "noise")) == .malformed)
        #expect(code(file: try workshop.write([], to: "empty")) == .malformed)
        let large = try workshop.write([UInt8](repeating: 0, count: 2 << 20), to: "large")
        #expect(code(file: large) == .malformed)
        let keyOnly = try workshop.write(try minted.keyPEM(), to: "key.pem")
        #expect(code(file: keyOnly) == .malformed)
        let cut = try workshop.write(
            Array(try minted.certificatePEM().dropLast(40)) + minted.keyPEM(), to: "cut.pem")
        #expect(code(file: cut) == .malformed)
        let brokenKey = Array("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".utf8)
        let broken = try workshop.write(try minted.certificatePEM() + brokenKey, to: "broken.pem")
        #expect(code(file: broken) == .malformed)
    }

    @Test("no message of a failure holds the passphrase")
    func secrets() throws {
        let path = workshop.file("encrypted.pem")
        try minted.write(certificate: path, key: path, passphrase: "right")
        let failure = failure(file: path, passphraseFile: try passphraseFile("very-secret-guess"))
        #expect(failure?.code == .wrongPassphrase)
        #expect(failure?.description.contains("very-secret-guess") == false)
        #expect(failure?.description.contains("\n") == false)
    }

    @Test("validity is checked against a given time, both ends included")
    func validity() throws {
        let identity = minted.identity
        try identity.checkValidity(at: identity.notBefore)
        try identity.checkValidity(at: identity.notAfter)
        func code(at time: Int64) -> IdentityFailure.Code? {
            do {
                try identity.checkValidity(at: time)
                return nil
            } catch {
                return error.code
            }
        }
        #expect(code(at: identity.notAfter + 1) == .expired)
        #expect(code(at: identity.notBefore - 1) == .notYetValid)
    }
}
