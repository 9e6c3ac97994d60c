import CNGHTTP2
import Glibc

// Between nghttp2, which knows frames and no sockets, and TLS. Frames are gathered into one buffer
// and go out in whole records of 16 KiB: a record and a system call for each frame would cost three
// times as much. Bytes come in in portions of 64 KiB.
//
// Calls into nghttp2 run callbacks that change the session's state, so nobody may hold on to that
// state while making one.

/// One HTTP/2 connection's bytes, in and out. Confined to its thread.
package final class HTTP2Wire {
    /// The connection below.
    package let connection: TLSConnection
    /// The nghttp2_session above, deleted with this object.
    package let session: OpaquePointer
    private let input: UnsafeMutableRawBufferPointer
    private let output: UnsafeMutablePointer<HTTP2Output>
    /// The last read filled the buffer, so TLS may hold more that poll cannot see.
    package private(set) var mayHoldMore = false

    /// Frames are gathered up to this many bytes before TLS is asked to take them.
    private static let gathered = 64 * 1024

    /// Takes over the nghttp2_session.
    package init(_ connection: TLSConnection, session: OpaquePointer) {
        (self.connection, self.session) = (connection, session)
        input = .allocate(byteCount: TLSContext.readBufferSize, alignment: 16)
        output = .allocate(capacity: 1)
        output.initialize(to: HTTP2Output(capacity: 2 * Self.gathered))
    }

    deinit {
        nghttp2_session_del(session)
        input.deallocate()
        output.deinitialize(count: 1)
        output.deallocate()
    }

    /// Bytes that wait for TLS.
    package var backlog: Int { output.pointee.count }
    /// Bytes of all frames so far: where the next one begins.
    var bytesAdded: UInt64 { output.pointee.added }
    /// Bytes that TLS has taken.
    var bytesTaken: UInt64 { output.pointee.taken }

    /// Takes all frames that nghttp2 can send now; an error code of nghttp2 when it cannot go on.
    func gather(limit: Int = .max) -> Int32 {
        while output.pointee.count < limit {
            var frame: UnsafePointer<UInt8>?
            let length = nghttp2_session_mem_send(session, &frame)
            if length <= 0 {
                return Int32(length)
            }
            output.pointee.append(UnsafeRawBufferPointer(start: frame, count: length))
        }
        return 0
    }

    /// Adds bytes that are no frame of nghttp2's, behind the frames so far.
    package func addRaw(_ bytes: [UInt8]) {
        _ = gather()
        bytes.withUnsafeBytes { output.pointee.append($0) }
    }

    /// How sending ended for now.
    package enum Flow: Sendable {
        /// Everything is out.
        case done
        /// The socket is full; wait for this.
        case wait(Poll.Direction)
        /// The connection is over.
        case failed(HTTP2Close)
    }

    /// Sends what there is, without waiting.
    package func flush() -> Flow {
        while true {
            let error = gather(limit: Self.gathered)
            if error != 0 {
                return .failed(.library(error, peer: connection.peer, detail: ""))
            }
            if output.pointee.isEmpty {
                return .done
            }
            do throws(TransportFailure) {
                switch try connection.send(output.pointee.waiting) {
                case .sent(let count): output.pointee.drop(count)
                case .wait(let direction): return .wait(direction)
                }
            } catch {
                return .failed(.writing(error))
            }
        }
    }

    /// What a read brought.
    package enum Arrival: Sendable {
        /// So many bytes.
        case bytes(Int)
        /// Nothing was there.
        case nothing
        /// nghttp2 cannot go on with this peer, by its error code.
        case refused(Int32)
        /// The connection is over.
        case ended(HTTP2Close)
    }

    /// Reads what is there, without waiting, and hands it to nghttp2.
    package func receive() -> Arrival {
        mayHoldMore = false
        let outcome: ReadOutcome
        do throws(TransportFailure) {
            outcome = try connection.read(into: input, deadline: .now)
        } catch {
            return .ended(.transport(error))
        }
        switch outcome {
        case .bytes(let count):
            mayHoldMore = count == input.count
            let start = input.baseAddress?.assumingMemoryBound(to: UInt8.self)
            let result = nghttp2_session_mem_recv(session, start, count)
            return result < 0 ? .refused(Int32(result)) : .bytes(count)
        case .end(let end):
            return .ended(.ended(end, peer: connection.peer))
        case .timedOut, .interrupted:
            return .nothing
        }
    }

    /// Waits for the peer: for room as well when bytes wait.
    package func wait(
        until deadline: Deadline, for direction: Poll.Direction, interrupt: Interrupt?
    ) -> Poll.Outcome {
        Poll.wait(
            connection.socket.descriptor, for: direction, deadline: deadline, interrupt: interrupt)
    }

    /// Sends what is left by the deadline, then close_notify.
    package func finish(deadline: Deadline) {
        while case .wait(let direction) = flush() {
            guard case .ready = wait(until: deadline, for: direction, interrupt: nil) else {
                break
            }
        }
        connection.closeNotify(deadline: deadline)
    }
}

/// Bytes on their way to TLS: frames are added behind, what TLS took is dropped in front.
struct HTTP2Output: ~Copyable {
    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    private var start = 0
    private var end = 0
    /// Bytes ever added: the place of the next frame in the whole stream of bytes.
    private(set) var added: UInt64 = 0

    init(capacity: Int) {
        self.capacity = capacity
        base = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit {
        base.deallocate()
    }

    var count: Int { end - start }
    var isEmpty: Bool { start == end }

    /// Bytes that TLS has taken.
    var taken: UInt64 { added - UInt64(count) }

    /// What waits, for as long as nothing is added.
    var waiting: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + start, count: count)
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else {
            return
        }
        if capacity - end < bytes.count {
            makeRoom(for: bytes.count)
        }
        (base + end).copyMemory(from: source, byteCount: bytes.count)
        end += bytes.count
        added += UInt64(bytes.count)
    }

    mutating func drop(_ count: Int) {
        precondition(count <= self.count, "more bytes dropped than waited")
        start += count
        if start == end {
            (start, end) = (0, 0)
        }
    }

    private mutating func makeRoom(for more: Int) {
        let (waiting, needed) = (count, count + more)
        if needed > capacity {
            let grown = max(needed, capacity * 2)
            let fresh = UnsafeMutableRawPointer.allocate(byteCount: grown, alignment: 16)
            fresh.copyMemory(from: base + start, byteCount: waiting)
            base.deallocate()
            (base, capacity) = (fresh, grown)
        } else {
            memmove(base, base + start, waiting)
        }
        (start, end) = (0, waiting)
    }
}
