import CNGHTTP2
import Glibc

// Connects nghttp2, which reads and writes frames, with TLS. Frames are collected in one buffer and
// sent in full records of 16 KiB, because a record and a system call for each frame would cost
// three times as much. Bytes are received in portions of 64 KiB.
//
// Calls of nghttp2 run callbacks that change the session's state, so a caller must not access that
// state during such a call.

/// Sends and receives the bytes of one HTTP/2 connection. Confined to its thread.
package final class HTTP2Wire {
    /// The connection below.
    package let connection: TLSConnection
    /// The nghttp2_session above, deleted with this object.
    package let session: OpaquePointer
    private let input: UnsafeMutableRawBufferPointer
    private let output: UnsafeMutablePointer<HTTP2Output>
    /// Whether the last read filled the buffer: TLS may then hold bytes that poll does not see.
    package private(set) var mayHoldMore = false

    /// The number of bytes of frames to collect before they are written to TLS.
    private static let collected = 64 * 1024

    /// Takes over the nghttp2_session.
    package init(_ connection: TLSConnection, session: OpaquePointer) {
        (self.connection, self.session) = (connection, session)
        input = .allocate(byteCount: TLSContext.readBufferSize, alignment: 16)
        output = .allocate(capacity: 1)
        output.initialize(to: HTTP2Output(capacity: 2 * Self.collected))
    }

    deinit {
        nghttp2_session_del(session)
        input.deallocate()
        output.deinitialize(count: 1)
        output.deallocate()
    }

    /// The number of bytes that are not written to TLS yet.
    package var backlog: Int { output.pointee.count }
    /// The number of bytes of all frames so far: the position of the next one.
    var bytesAdded: UInt64 { output.pointee.added }
    /// The number of bytes written to TLS.
    var bytesTaken: UInt64 { output.pointee.taken }

    /// Collects the frames that nghttp2 can send now, up to the limit. Returns 0, or an error code
    /// of nghttp2.
    func collectFrames(limit: Int = .max) -> Int32 {
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

    /// Adds bytes that are not frames of nghttp2, after the frames so far.
    package func addRaw(_ bytes: [UInt8]) {
        _ = collectFrames()
        bytes.withUnsafeBytes { output.pointee.append($0) }
    }

    /// The result of sending.
    package enum Flow: Sendable {
        /// All bytes are sent.
        case done
        /// The socket is full: wait for this.
        case wait(Poll.Direction)
        /// The connection has ended.
        case failed(HTTP2Close)
    }

    /// Sends all frames, without waiting.
    package func flush() -> Flow {
        while true {
            let error = collectFrames(limit: Self.collected)
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
                case .ended(let end): return .failed(.ended(end, peer: connection.peer))
                }
            } catch {
                return .failed(.transport(error))
            }
        }
    }

    /// The result of a read.
    package enum Arrival: Sendable {
        /// The number of bytes.
        case bytes(Int)
        /// No bytes were available.
        case nothing
        /// nghttp2 refused the bytes, with this error code.
        case refused(Int32)
        /// The connection has ended.
        case ended(HTTP2Close)
    }

    /// Reads the available bytes, without waiting, and passes them to nghttp2.
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

    /// Waits until the socket is ready for `direction`.
    package func wait(
        until deadline: Deadline, for direction: Poll.Direction, interrupt: Interrupt?
    ) -> Poll.Outcome {
        Poll.wait(
            connection.socket.descriptor, for: direction, deadline: deadline, interrupt: interrupt)
    }

    /// Sends the remaining bytes by the deadline, then close_notify.
    package func finish(deadline: Deadline) {
        while case .wait(let direction) = flush() {
            guard case .ready = wait(until: deadline, for: direction, interrupt: nil) else {
                break
            }
        }
        connection.closeNotify(deadline: deadline)
    }
}

/// The bytes to be written to TLS: frames are appended at the end, written bytes are removed at the
/// start.
struct HTTP2Output: ~Copyable {
    private var base: UnsafeMutableRawPointer
    private var capacity: Int
    private var start = 0
    private var end = 0
    /// The number of bytes ever added: the position of the next frame in the stream of bytes.
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

    /// The number of bytes written to TLS.
    var taken: UInt64 { added - UInt64(count) }

    /// The bytes that are not written yet; valid until the next call of `append`.
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
        precondition(count <= self.count, "more bytes dropped than present")
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
