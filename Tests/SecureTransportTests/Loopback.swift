import APNsSimulator
import Foundation
import Synchronization

@testable import SecureTransport

/// Long enough to never decide a test that passes, short enough to end one that hangs.
let patience = Duration.seconds(20)

/// A directory of a test's own, removed with it.
final class Workshop: Sendable {
    let path: String

    init() throws {
        let url = FileManager.default.temporaryDirectory
            .appendingPathComponent("transport-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        path = url.path
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    func file(_ name: String) -> String {
        path + "/" + name
    }

    func write(_ bytes: [UInt8], to name: String, mode: UInt32 = 0o600) throws -> String {
        try CertificateMint.write(bytes, to: file(name), mode: mode)
        return file(name)
    }
}

/// An authority with its certificate in a file.
struct Authority: Sendable {
    let workshop: Workshop
    let minter: CertificateAuthority
    let file: String

    init(_ name: String = "Authority of a test") throws {
        workshop = try Workshop()
        minter = try CertificateAuthority(commonName: name)
        file = workshop.file("ca.pem")
        try minter.writeCertificate(to: file)
    }

    func identity(_ request: CertificateRequest) throws -> TLSIdentity {
        try minter.issue(request).identity
    }

    func server(
        _ request: CertificateRequest = .server(),
        clients: TLSServerContext.ClientCertificates = .notAsked,
        versions: ClosedRange<TLSServerContext.Version> = .tls12 ... .tls13, alpn: [String] = []
    ) throws -> TLSServerContext {
        try TLSServerContext(
            identity: identity(request), clients: clients, versions: versions, alpn: alpn)
    }

    func client(_ identity: TLSIdentity? = nil, alpn: [String] = []) throws -> TLSClientContext {
        try TLSClientContext(trust: .file(file), identity: identity, alpn: alpn)
    }
}

/// A server on loopback that serves one connection after the other on a thread of its own.
final class Loopback: Sendable {
    let listener: TLSListener
    private let stop: Interrupt
    private let thread: WorkerThread
    private let thrown: Errors

    final class Errors: Sendable {
        let all = Mutex<[any Error]>([])
    }

    init(_ serve: @escaping @Sendable (AcceptedConnection) throws -> Void) throws {
        let (listener, stop, thrown) = (try TLSListener(), try Interrupt(), Errors())
        (self.listener, self.stop, self.thrown) = (listener, stop, thrown)
        thread = try WorkerThread {
            while let client = try? listener.accept(deadline: .never, interrupt: stop) {
                do {
                    try serve(client)
                } catch {
                    thrown.all.withLock { $0.append(error) }
                }
            }
        }
    }

    /// Completes a handshake, then serves.
    convenience init(
        _ context: TLSServerContext,
        serve: @escaping @Sendable (TLSConnection) throws -> Void = { _ in }
    ) throws {
        try self.init { client in
            try serve(try client.handshake(context: context, timeout: patience))
        }
    }

    deinit {
        stop.trip()
        thread.join()
    }

    /// Waits for the end of the service and returns its failure.
    func finish() -> [any Error] {
        stop.trip()
        thread.join()
        return thrown.all.withLock { $0 }
    }

    /// Connects to it.
    func connect(
        _ context: TLSClientContext, hostName: String = "localhost",
        handshakeTimeout: Duration = patience, interrupt: Interrupt? = nil
    ) throws(TransportFailure) -> TLSConnection {
        try TLSConnection.connect(
            to: listener.address, hostName: hostName, context: context,
            connectDeadline: .in(patience), handshakeTimeout: handshakeTimeout,
            interrupt: interrupt)
    }

    /// The failure of connecting or, under TLS 1.3, of the first read; nil without a failure.
    func failure(
        _ context: TLSClientContext, hostName: String = "localhost",
        handshakeTimeout: Duration = patience, interrupt: Interrupt? = nil
    ) -> TransportFailure? {
        do {
            let connection = try connect(
                context, hostName: hostName, handshakeTimeout: handshakeTimeout,
                interrupt: interrupt)
            _ = try connection.read(1)
            return nil
        } catch {
            return error
        }
    }
}

extension TLSConnection {
    func write(_ bytes: [UInt8], deadline: Deadline = .in(patience)) throws(TransportFailure) {
        // withUnsafeBytes does not pass on the type of what its body throws.
        let result = bytes.withUnsafeBytes { buffer in
            Result { () throws(TransportFailure) in try write(buffer, deadline: deadline) }
        }
        try result.get()
    }

    /// One read of at most `count` bytes: the outcome and the bytes.
    func read(
        _ count: Int, deadline: Deadline = .in(patience)
    ) throws(TransportFailure) -> (outcome: ReadOutcome, bytes: [UInt8]) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1)
        defer { buffer.deallocate() }
        let outcome = try read(into: buffer, deadline: deadline)
        if case .bytes(let filled) = outcome {
            return (outcome, Array(buffer[..<filled]))
        }
        return (outcome, [])
    }

    /// Reads until a read returns no bytes.
    func readAll(portion: Int = 65536) throws -> (end: ReadOutcome, bytes: [UInt8]) {
        var all: [UInt8] = []
        while true {
            let (outcome, bytes) = try read(portion)
            guard case .bytes = outcome else {
                return (outcome, all)
            }
            all += bytes
        }
    }
}
