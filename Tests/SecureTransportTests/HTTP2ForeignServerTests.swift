import Testing

@testable import SecureTransport

@Suite(
    "HTTP/2 with servers of other projects",
    .enabled(if: HTTP2Program.areInstalled, Comment(rawValue: HTTP2Program.absence)))
struct HTTP2ForeignServerTests {
    /// Five thousand requests whose bodies the server sends back.
    private func echo(_ server: HTTP2ForeignServer, _ authority: Authority) throws {
        let client = HTTP2Drive(try HTTP2ClientSession(try server.connect(authority)))
        client.bodyHoldsKey = true
        #expect(client.run(0..<5_000) == [])
        #expect(client.kinds.count == 5_000)
        for key in 0..<5_000 as Range<UInt64> {
            try #require(client.kinds[key] == .response(status: 200))
            try #require(client.bodies[key] == client.body + Array("\(key)".utf8))
        }
        client.session.close()
    }

    @Test("nghttpd answers five thousand requests, each under its own key")
    func nghttpd() throws {
        let authority = try Authority()
        try echo(.nghttpd(authority, echoes: true), authority)
    }

    @Test("nghttpx answers five thousand requests, each under its own key")
    func nghttpx() throws {
        let authority = try Authority()
        let backend = try HTTP2ForeignServer.plainNghttpd(authority)
        let proxy = try HTTP2ForeignServer.nghttpx(authority, before: backend)
        try echo(proxy, authority)
        _ = backend.port
    }

    @Test("the client gets status and body of a failure")
    func failure() throws {
        let authority = try Authority()
        let server = try HTTP2ForeignServer.nghttpd(authority, echoes: false)
        let client = HTTP2Drive(try HTTP2ClientSession(try server.connect(authority)))
        client.run(0..<10)
        #expect(client.kinds.values.allSatisfy { $0 == .response(status: 404) })
        #expect(client.bodies.count == 10)
    }
}
