import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

@Suite("A signing key")
struct SigningTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
    }

    /// Runs openssl(1); its output, or nil when it ended with an error.
    private func openssl(_ arguments: [String]) throws -> Data? {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = Pipe()
        try process.run()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return process.terminationStatus == 0 ? data : nil
    }

    private func write(_ bytes: [UInt8], _ name: String, mode: Int = 0o600) throws -> String {
        let path = folder.file(name)
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    private func refusal(_ path: String) -> String? {
        do throws(IdentityFailure) { _ = try SigningKey(file: path) } catch { return "\(error)" }
        return nil
    }

    /// DER of a signature (RFC 3279 section 2.2.3), written here independently of the code tested.
    private func sequence(_ raw: [UInt8]) -> [UInt8] {
        func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
            var digits = Array(bytes.drop { $0 == 0 })
            if digits.first.map({ $0 >= 0x80 }) ?? true { digits.insert(0, at: 0) }
            return [2, UInt8(digits.count)] + digits
        }
        let content = integer(raw[..<32]) + integer(raw[32...])
        return [0x30, UInt8(content.count)] + content
    }

    @Test("openssl verifies the key's signatures, 64 bytes each")
    func opensslVerifies() throws {
        let path = folder.file("AuthKey_ABC123DEFG.p8")
        try #require(
            try openssl([
                "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path,
            ]) != nil)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        let publicKey = folder.file("public.pem")
        try #require(try openssl(["pkey", "-in", path, "-pubout", "-out", publicKey]) != nil)
        let key = try SigningKey(file: path)
        for round in 0..<8 {
            let message = Array("message \(round)".utf8)
            let signature = try key.signature(of: message)
            #expect(signature.count == 64)
            let verdict = try openssl([
                "dgst", "-sha256", "-verify", publicKey,
                "-signature", try write(sequence(signature), "signature.der"),
                try write(message, "message"),
            ])
            #expect(verdict.map { String(decoding: $0, as: UTF8.self) } == "Verified OK\n")
            #expect(key.verificationKey.verifies(signature, of: message))
        }
    }

    @Test("the key verifies its own 2,000 signatures, also with leading zeros, and no damaged one")
    func roundTrip() throws {
        let key = try SigningKey()
        let verification = key.verificationKey
        let other = try SigningKey().verificationKey
        var shortHalves = 0
        for round in 0..<2_000 {
            let message = Array("\(round)".utf8)
            var signature = try key.signature(of: message)
            #expect(verification.verifies(signature, of: message))
            if signature[0] == 0 || signature[32] == 0 { shortHalves += 1 }
            guard round < 50 else { continue }
            #expect(!other.verifies(signature, of: message))
            #expect(!verification.verifies(signature, of: message + [0]))
            #expect(!verification.verifies(signature.dropLast(), of: message))
            #expect(!verification.verifies(sequence(signature), of: message))
            signature[round] ^= 1
            #expect(!verification.verifies(signature, of: message))
        }
        // About 16 are expected; without any the test has not covered its case.
        #expect(shortHalves > 0)
        #expect(!verification.verifies([UInt8](repeating: 0, count: 64), of: []))
        #expect(!verification.verifies([], of: []))
    }

    @Test("a key is read back from its PEM, and every other content is refused")
    func files() throws {
        let key = try SigningKey()
        let path = try write(try key.pem(), "key.p8")
        let signature = try SigningKey(file: path).signature(of: [1, 2, 3])
        #expect(key.verificationKey.verifies(signature, of: [1, 2, 3]))
        var cases = [
            (folder.file("none"), "no such file"),
            (try write(try key.pem(), "open", mode: 0o640), "mode 0640"),
            (try write([], "empty"), "no private key in it"),
            (
                try write(Array(try key.pem().dropLast(60)), "cut"),
                "the private key in it is broken"
            ),
        ]
        let wrongKinds = [
            ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
            ["-algorithm", "ED25519"], ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
        ]
        for (index, kind) in wrongKinds.enumerated() {
            let pem = try #require(try openssl(["genpkey"] + kind))
            cases.append((try write(Array(pem), "kind-\(index)"), "not one of the curve P-256"))
        }
        let encrypted = try #require(
            try openssl(["pkcs8", "-topk8", "-in", path, "-passout", "pass:secret"]))
        cases.append((try write(Array(encrypted), "encrypted"), "it is encrypted"))
        for (path, words) in cases {
            #expect(refusal(path)?.contains(words) == true, "\(refusal(path) ?? "read")")
        }
    }
}
