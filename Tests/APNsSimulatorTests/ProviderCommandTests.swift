import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import TestSupport
import Testing

/// curl(1) with HTTP/2; nil where it is not installed or cannot.
private let curl: String? = {
    guard let version = try? output("/usr/bin/curl", ["--version"]), version.contains("HTTP2")
    else { return nil }
    return "/usr/bin/curl"
}()

private func output(_ program: String, _ arguments: [String]) throws -> String {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = Pipe()
    try process.run()
    let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return String(decoding: data, as: UTF8.self)
}

@Suite("The apns-simulator provider command")
struct ProviderCommandTests {
    private let folder: TemporaryFolder
    private let dead = String(repeating: "ab", count: 32)

    init() throws {
        folder = try TemporaryFolder()
    }

    /// Status and body that a foreign client gets for a token.
    private func push(
        _ greeting: [String: Any], to token: String, _ options: [String]
    ) throws -> String {
        let port = (greeting["listening"] as? String ?? "").split(separator: ":").last ?? ""
        return try output(
            try #require(curl),
            [
                "--silent", "--http2", "--cacert",
                greeting["ca"] as? String ?? "", "--max-time", "20", "--write-out",
                " %{http_version} %{http_code}", "--data-binary", "{}",
            ] + options + ["https://localhost:\(port)/3/device/\(token)"])
    }

    @Test(
        "the command serves curl with a provider token and counts its answers",
        .enabled(if: curl != nil, "curl with HTTP/2 is not installed"))
    func providerToken() throws {
        let run = try Run([
            "provider", "--directory", folder.file("c"),
            "--answer", "\(dead)=Unregistered@1700000000123",
        ])
        let greeting = try #require(try run.line())
        let key = try SigningKey(file: greeting["token-key"] as? String ?? "")
        let claims = try ProviderTokenClaims(
            keyID: greeting["key-id"] as? String ?? "",
            teamID: greeting["team-id"] as? String ?? "",
            issuedAt: EpochSeconds(UInt32(Date().timeIntervalSince1970)))
        let token = try claims.text(signature: key.signature(of: claims.signingInput))
        let good = ["-H", "apns-topic: com.example.chat", "-H", "authorization: bearer \(token)"]
        #expect(try push(greeting, to: FeedbackVector.tutorialHex, good) == " 2 200")
        #expect(
            try push(greeting, to: dead, good)
                == #"{"reason":"Unregistered","timestamp":1700000000123} 2 410"#)
        #expect(
            try push(greeting, to: "abc", good) == #"{"reason":"BadDeviceToken"} 2 400"#)
        #expect(
            try push(greeting, to: dead, Array(good.prefix(2)))
                == #"{"reason":"MissingProviderToken"} 2 403"#)
        run.terminate()
        var last: [String: Any] = [:]
        while let line = try run.line() { last = line }
        let totals = last["totals"] as? [String: Any]
        #expect(totals?["requests"] as? Int == 4)
        #expect(
            totals?["answered"] as? [String: Int] == ["200": 1, "400": 1, "403": 1, "410": 1])
        #expect(run.status() == 0)
    }

    @Test(
        "the command serves curl with a client certificate, whose topic is the default",
        .enabled(if: curl != nil, "curl with HTTP/2 is not installed"))
    func certificate() throws {
        let run = try Run([
            "provider", "--directory", folder.file("c"), "--client-certificate",
            "--share", "100=body:410:not JSON",
        ])
        let greeting = try #require(try run.line())
        let identity = [
            "--cert", greeting["certificate"] as? String ?? "",
            "--key", greeting["key"] as? String ?? "",
        ]
        #expect(try push(greeting, to: dead, identity) == "not JSON 2 410")
        #expect(greeting["token-key"] == nil)
        let connection = try #require(try run.line())
        #expect((connection["subject"] as? String)?.contains("UID=com.example.chat") == true)
        run.terminate()
        #expect(run.status() == 0)
    }

    @Test(
        "two gateways know the tokens of an environment each, and call those of the other bad",
        .enabled(if: curl != nil, "curl with HTTP/2 is not installed"))
    func environments() throws {
        let tokens = [String(repeating: "01", count: 32), String(repeating: "ab", count: 32)]
        for (own, other) in [(tokens[0], tokens[1]), (tokens[1], tokens[0])] {
            let known = try folder.write("known", "\(own.uppercased())\n\n")
            let run = try Run([
                "provider", "--directory", folder.file("c"), "--client-certificate", "--known",
                known, "--answer", "\(other)=Unregistered@1700000000123",
            ])
            let greeting = try #require(try run.line())
            let identity = [
                "--cert", greeting["certificate"] as? String ?? "",
                "--key", greeting["key"] as? String ?? "",
            ]
            #expect(try push(greeting, to: own, identity) == " 2 200")
            #expect(
                try push(greeting, to: other, identity) == #"{"reason":"BadDeviceToken"} 2 400"#)
            run.terminate()
            #expect(run.status() == 0)
        }
        let broken = try folder.write("broken", "abcd\nno token\n")
        let run = try Run(["provider", "--directory", folder.file("c"), "--known", broken])
        #expect(run.status() == 1)
    }

    @Test(
        "a wrong option is a usage error, wrong contents are a failure",
        arguments: [
            (["--go-away-at", "0"], 64), (["--stall-at", "-1"], 64),
            (["--answer", "abcd"], 1), (["--answer", "abc=ok"], 1),
            (["--share", "101=ok"], 1), (["--at", "0=ok"], 1),
            (["--at", "1=Unregisterd"], 1), (["--max-streams-at", "5"], 1),
            (["--key-id", "short"], 1),
        ] as [([String], Int32)])
    func mistakes(options: [String], status: Int32) throws {
        let run = try Run(["provider", "--directory", folder.file("c")] + options)
        #expect(run.status() == status)
    }
}
