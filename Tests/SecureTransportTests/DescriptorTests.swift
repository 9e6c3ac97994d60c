import APNsSimulator
import Foundation
import Testing

@testable import SecureTransport

// Other tests open and close descriptors at the same time, so a plain count is useless. A socket
// is found by its port, which no other test has, and a file by its directory.

@Suite("Descriptors")
struct DescriptorTests {
    /// Sockets of any process that are open at either end of connections with this port.
    private func openSockets(port: UInt16) throws -> Int {
        let suffix = ":" + String(format: "%04X", Int(port))
        let table = try String(contentsOfFile: "/proc/self/net/tcp", encoding: .utf8)
        return table.split(separator: "\n").dropFirst().filter { line in
            let fields = line.split(separator: " ")
            // An inode of 0 is a connection without a descriptor, such as one in TIME_WAIT.
            return fields.count > 9 && fields[9] != "0"
                && (fields[1].hasSuffix(suffix) || fields[2].hasSuffix(suffix))
        }.count
    }

    private func openFiles(in directory: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
            let target = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/fd/\($0)")
            return target?.hasPrefix(directory) == true ? target : nil
        }
    }

    @Test("no failure leaves a socket open")
    func failures() throws {
        let (authority, foreign) = (try Authority(), try Authority("Foreign"))
        let server = try authority.server(clients: .required(authorities: authority.file))
        let turns = 12
        let loopback = try Loopback(server) { $0.reset() }
        for _ in 0..<turns {
            #expect(loopback.failure(try authority.client()) != nil)
            #expect(loopback.failure(try foreign.client()) != nil)
            #expect(loopback.failure(try authority.client(), hostName: "other.example") != nil)
            _ = try loopback.connect(authority.client(authority.identity(.client())))
        }
        #expect(loopback.finish().count == 3 * turns)
        #expect(try openSockets(port: loopback.listener.port) == 1)
    }

    @Test("a silent peer, an interrupt and a peer that never begins TLS leave no socket open")
    func waits() throws {
        let client = try Authority().client()
        let interrupt = try Interrupt()
        interrupt.trip()
        for isSilent in [true, false] {
            let loopback = try Loopback {
                if isSilent { _ = $0.staySilent(deadline: .in(patience)) }
            }
            for _ in 0..<5 {
                #expect(loopback.failure(client, handshakeTimeout: .milliseconds(5)) != nil)
                #expect(loopback.failure(client, interrupt: interrupt) != nil)
            }
            #expect(loopback.finish().isEmpty)
            #expect(try openSockets(port: loopback.listener.port) == 1)
        }
    }

    @Test("reading credentials, good or bad, leaves no file open")
    func files() throws {
        let workshop = try Workshop()
        let minted = try CertificateAuthority().issue(.client())
        let good = workshop.file("good.pem")
        try minted.write(certificate: good, key: good)
        let open = try workshop.write(try minted.keyPEM(), to: "open.pem", mode: 0o644)
        let noise = try workshop.write([1, 2, 3], to: "noise")
        for path in [good, open, noise, workshop.path] {
            _ = try? TLSIdentity.load(file: path)
        }
        #expect(try openFiles(in: workshop.path).isEmpty)
    }
}
