import APNsProtocol
import APNsSimulator
import Foundation
import Glibc
import SecureTransport
import TestSupport
import Testing

@Suite("Files with secrets")
struct SecretFileTests {
    /// A provider that takes provider tokens, for all tests.
    private static let provider = Result {
        try ProviderGateway(
            certificates: SweepStage.certificates.get(),
            rules: ProviderRules(authentication: .token([:])))
    }

    /// A stage whose settings name every kind of secret file, and these files.
    private func stage() throws -> (stage: SweepStage, files: [String]) {
        let stage = try SweepStage(.sqlite, dead: 3)
        let key = try stage.folder.write(
            "AuthKey.p8", String(decoding: SigningKey().pem(), as: UTF8.self))
        let certificates = try SweepStage.certificates.get()
        let client = try stage.folder.write(
            "client.key", [UInt8](Data(contentsOf: URL(fileURLWithPath: certificates.key(.client))))
        )
        let phrase = try stage.folder.write("passphrase", "none\n")
        let password = try stage.folder.write("password", "none\n")
        stage.lines.certificate = """
            certificate: {file: \(certificates.certificate(.client)), key: \(client), \
            passphrase-file: \(phrase)}
                token-key: {file: \(key), key-id: ABC123DEFG, team-id: DEF123GHIJ}
                provider: {host: 127.0.0.1, port: \(try Self.provider.get().port), \
            ca: \(certificates.authority)}
            """
        stage.lines.store += "\n  password-file: \(password)"
        return (stage, [password, phrase, client, key])
    }

    private func run(_ stage: SweepStage, _ command: String = "check") throws -> ToolResult {
        // A program that waits for a pipe is ended after a while, with 124.
        try stage.run([command], under: ["/usr/bin/timeout", "20"])
    }

    @Test("secret files are read as they are, also through a link as Kubernetes mounts them")
    func links() throws {
        let (stage, files) = try stage()
        try run(stage).ends(0)
        for path in files {
            #expect(rename(path, path + ".real") == 0 && symlink(path + ".real", path) == 0)
        }
        try run(stage).ends(0)
    }

    @Test(
        "pipes, folders and devices are refused at once, also in place of settings and authorities")
    func kinds() throws {
        let (stage, files) = try stage()
        for (number, path) in files.enumerated() {
            for kind in number == 0 ? ["folder", "device", "pipe"] : ["pipe"] {
                #expect(rename(path, path + ".kept") == 0)
                switch kind {
                case "pipe": #expect(mkfifo(path, 0o600) == 0)
                case "folder": #expect(mkdir(path, 0o700) == 0)
                default: #expect(symlink("/dev/zero", path) == 0)
                }
                try run(stage).ends([77, 78], path, "not a regular file", for: kind)
                #expect(remove(path) == 0 && rename(path + ".kept", path) == 0)
            }
        }
        let pipe = stage.folder.file("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        try RunningTool(
            "pushsweep", ["check", "--config", pipe], under: ["/usr/bin/timeout", "20"]
        ).wait().ends(78, "not a regular file")
        for path in ["/nowhere/ca.pem", try stage.folder.write("ca.pem", "no certificate")] {
            stage.lines.ca = path
            try run(stage, "sweep").ends(78, path, "(apps[chat/production].feedback.ca)")
        }
        stage.lines.ca = pipe
        for command in ["check", "sweep"] { try run(stage, command).ends(78, "not a regular file") }
    }

    @Test(
        "secret files of another user, or readable by others, are refused with 77",
        .enabled(if: geteuid() == 0, "giving files to others takes root"))
    func owners() throws {
        let (stage, files) = try stage()
        for path in files {
            #expect(chown(path, 65_534, 65_534) == 0)
            try run(stage).ends(77, path, "belongs to user nobody", "su -s /bin/sh nobody -c ")
                .lacks("chown")
            #expect(chown(path, 0, 0) == 0)
            chmod(path, 0o640)
            try run(stage).ends(77, path)
            chmod(path, 0o600)
        }
    }
}
