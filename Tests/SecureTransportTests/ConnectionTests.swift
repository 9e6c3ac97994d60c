import APNsSimulator
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import SecureTransport

@Suite("Ends of a connection")
struct EndTests {
    @Test("a connection ends cleanly, cut or by a reset, after the bytes that came")
    func ends() throws {
        let authority = try Authority()
        let client = try authority.client()
        for (bytes, end) in [
            ([1, 2, 3], .closeNotify), ([1, 2, 3], .cut), ([], .reset),
        ] as [([UInt8], ConnectionEnd)] {
            let loopback = try Loopback(authority.server()) { connection in
                try connection.write(bytes)
                switch end {
                case .closeNotify: connection.close()
                case .cut: connection.closeAbruptly()
                case .reset: connection.reset()
                }
            }
            let heard = try loopback.connect(client).readAll()
            #expect(heard.end == .end(end) && heard.bytes == bytes)
        }
    }

    @Test("each read after the end returns the same end")
    func stable() throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server()) { $0.closeAbruptly() }
        let connection = try loopback.connect(authority.client())
        for _ in 1...3 {
            #expect(try connection.read(10).outcome == .end(.cut))
        }
    }

    @Test("close_notify from one side leaves the other side free to write")
    func halfClose() throws {
        let authority = try Authority()
        let heard = Mutex<[UInt8]>([])
        let loopback = try Loopback(authority.server()) { connection in
            connection.closeNotify()
            let all = try connection.readAll()
            heard.withLock { $0 = all.bytes }
        }
        let connection = try loopback.connect(authority.client())
        #expect(try connection.read(10).outcome == .end(.closeNotify))
        try connection.write([4, 5, 6])
        connection.close()
        #expect(loopback.finish().isEmpty)
        #expect(heard.withLock { $0 } == [4, 5, 6])
    }

    @Test("a connection closed on this side refuses further use")
    func closedHere() throws {
        let authority = try Authority()
        let connection = try Loopback(authority.server()).connect(authority.client())
        connection.close()
        #expect(throws: TransportFailure.self) { try connection.read(1) }
        #expect(throws: TransportFailure.self) { try connection.write([1]) }
    }

    @Test("a read returns the good bytes before a broken record, then the failure")
    func brokenRecord() throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server()) { connection in
            try connection.write([1, 2, 3])
            let garbage = [UInt8](repeating: 0x17, count: 64)
            _ = garbage.withUnsafeBytes {
                Glibc.write(connection.socket.descriptor, $0.baseAddress, $0.count)
            }
            connection.discardUntilEnd(deadline: .in(patience))
        }
        let connection = try loopback.connect(authority.client())
        #expect(try connection.read(3).bytes == [1, 2, 3])
        let failure = #expect(throws: TransportFailure.self) { try connection.read(10) }
        #expect(failure?.code == .protocolError)
    }
}

@Suite("Moving bytes")
struct TransferTests {
    @Test("many megabytes arrive unchanged in both directions at once")
    func bothWays() throws {
        let authority = try Authority()
        var generator = SeededGenerator("transfer")
        let portion = generator.bytes(1 << 20)
        let rounds = 12
        let loopback = try Loopback(authority.server()) { connection in
            let echo = try connection.readAll(portion: 100_003)
            try connection.write(echo.bytes)
            connection.close()
        }
        let connection = try loopback.connect(authority.client())
        for _ in 0..<rounds {
            try connection.write(portion)
        }
        connection.closeNotify()
        let heard = try connection.readAll(portion: 200_003)
        #expect(heard.end == .end(.closeNotify))
        #expect(heard.bytes.count == rounds * portion.count)
        for round in 0..<rounds {
            let start = round * portion.count
            #expect(heard.bytes[start..<(start + portion.count)].elementsEqual(portion))
        }
        #expect(loopback.finish().isEmpty)
    }

    @Test("a clean end arrives after any number of bytes, also when they filled the socket")
    func cleanEndBehindMuch() throws {
        let authority = try Authority()
        let bytes = [UInt8](repeating: 5, count: 4 << 20)
        let turn = Mutex(0)
        let loopback = try Loopback(authority.server()) { connection in
            let count = turn.withLock { turn in
                turn += 1
                return turn * 100_003
            }
            try connection.write(Array(bytes[..<count]))
            connection.close()
        }
        let client = try authority.client()
        for turn in 1...40 {
            let heard = try loopback.connect(client).readAll()
            #expect(heard.end == .end(.closeNotify))
            #expect(heard.bytes.count == turn * 100_003)
        }
        #expect(loopback.finish().isEmpty)
    }

    @Test("one read takes several records that have arrived")
    func severalRecords() throws {
        let authority = try Authority()
        let total = 3 * 16384
        let loopback = try Loopback(authority.server()) { connection in
            try connection.write([UInt8](repeating: 7, count: total))
            connection.close()
        }
        let connection = try loopback.connect(authority.client())
        // The end of the stream (POLLRDHUP, which Swift does not import) is only there once
        // everything before it has arrived.
        var waiting = pollfd(
            fd: connection.socket.descriptor, events: 0x2000, revents: 0)
        #expect(poll(&waiting, 1, 20_000) == 1)
        #expect(try connection.read(1 << 20).outcome == .bytes(total))
    }

    @Test("without reading ahead a read takes one record, and the others stay in the socket")
    func oneRecord() throws {
        let authority = try Authority()
        let record = [UInt8](repeating: 7, count: 10_000)
        let loopback = try Loopback(authority.server()) { connection in
            _ = try connection.read(1)
            for _ in 0..<3 { try connection.write(record) }
            connection.close()
        }
        let connection = try loopback.connect(authority.client())
        connection.stopReadingAhead()
        try connection.write([1])
        var waiting = pollfd(fd: connection.socket.descriptor, events: 0x2000, revents: 0)
        #expect(poll(&waiting, 1, 20_000) == 1)
        for _ in 0..<3 {
            #expect(try connection.read(TLSConnection.recordLength).outcome == .bytes(10_000))
        }
        #expect(try connection.read(1).outcome == .end(.closeNotify))
    }

    @Test("a read with a deadline of now returns the bytes that have arrived, or none")
    func dueNow() throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server()) { connection in
            _ = try connection.read(1)
            try connection.write([9])
            connection.discardUntilEnd(deadline: .in(patience))
        }
        let connection = try loopback.connect(authority.client())
        #expect(try connection.read(10, deadline: .now).outcome == .timedOut)
        try connection.write([1])
        var waiting = pollfd(fd: connection.socket.descriptor, events: Int16(POLLIN), revents: 0)
        #expect(poll(&waiting, 1, 20_000) == 1)
        #expect(try connection.read(10, deadline: .now).bytes == [9])
        connection.close()
    }

    @Test("a write to a peer that has gone fails with a reset or an early close")
    func peerGone() throws {
        let authority = try Authority()
        let loopback = try Loopback(authority.server()) { $0.reset() }
        let connection = try loopback.connect(authority.client())
        _ = try connection.read(1)
        let failure = #expect(throws: TransportFailure.self) {
            for _ in 1...100 {
                try connection.write([UInt8](repeating: 0, count: 65536))
            }
        }
        #expect(failure?.code == .reset || failure?.code == .closedEarly)
    }

    @Test("a write to a peer that reads nothing lasts until its deadline")
    func writeDeadline() throws {
        let authority = try Authority()
        let release = try Interrupt()
        let loopback = try Loopback(authority.server()) { _ in
            _ = release.wait(until: .in(patience))
        }
        let connection = try loopback.connect(authority.client())
        let failure = #expect(throws: TransportFailure.self) {
            // More than the sockets' buffers can hold.
            try connection.write(
                [UInt8](repeating: 0, count: 64 << 20), deadline: .in(.milliseconds(100)))
        }
        #expect(failure?.code == .timedOut)
        release.trip()
    }
}

@Suite("Interrupting")
struct InterruptTests {
    @Test("an interrupt wakes a waiting read, and the connection stays good")
    func wakesRead() throws {
        let authority = try Authority()
        let interrupt = try Interrupt()
        let loopback = try Loopback(authority.server()) { connection in
            try connection.write([1])
            connection.discardUntilEnd(deadline: .in(patience))
        }
        let connection = try loopback.connect(authority.client(), interrupt: interrupt)
        #expect(try connection.read(10).bytes == [1])
        let tripper = try WorkerThread { interrupt.trip() }
        #expect(try connection.read(10, deadline: .never).outcome == .interrupted)
        tripper.join()
        #expect(interrupt.isTripped)
        try connection.write([2])
        connection.close()
    }

    @Test("an interrupt ends a handshake that waits, a write that waits and an accept that waits")
    func wakesOthers() throws {
        let authority = try Authority()
        let (interrupt, release) = (try Interrupt(), try Interrupt())
        let loopback = try Loopback(authority.server()) { _ in
            _ = release.wait(until: .in(patience))
        }
        let connection = try loopback.connect(authority.client(), interrupt: interrupt)
        let listener = try TLSListener()
        let tripper = try WorkerThread { interrupt.trip() }
        let failure = #expect(throws: TransportFailure.self) {
            try connection.write([UInt8](repeating: 0, count: 64 << 20), deadline: .never)
        }
        #expect(failure?.code == .interrupted)
        tripper.join()
        let silent = try Loopback { _ = $0.staySilent(deadline: .in(patience)) }
        #expect(
            silent.failure(try authority.client(), interrupt: interrupt)?.code == .interrupted)
        #expect(try listener.accept(deadline: .never, interrupt: interrupt) == nil)
        release.trip()
    }
}

@Suite("Deadlines")
struct DeadlineTests {
    @Test("a deadline of now leaves no time, and a deadline of never becomes poll's endless wait")
    func bounds() {
        #expect(Deadline.now.hasPassed)
        #expect(Deadline.now.remainingMilliseconds == 0)
        #expect(!Deadline.never.hasPassed)
        #expect(Deadline.never.remainingMilliseconds == -1)
        #expect(Deadline.in(.seconds(-1)).hasPassed)
        #expect(Deadline.in(.seconds(Int64.max)) == .never)
        #expect(Deadline.in(.seconds(1 << 32)).remainingMilliseconds == .max)
    }

    @Test("remaining time is rounded up, so that a wait never ends before its deadline")
    func rounding() {
        let remaining = Deadline.in(.seconds(3600)).remainingMilliseconds
        #expect(remaining > 0 && remaining <= 3_600_000)
        #expect(Deadline.in(.seconds(1)) < Deadline.in(.seconds(100)))
        #expect(Deadline.earlier(of: .never, .now) == .now)
    }
}
