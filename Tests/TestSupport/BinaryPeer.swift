import APNsProtocol
import APNsSimulator
import Foundation
import SecureTransport
import Synchronization

/// A binary gateway that does on each connection what a test says, right or wrong. It records the
/// frames that it read, connection by connection.
package final class BinaryPeer: Sendable {
    /// One connection of a client.
    package final class Wire {
        private let connection: TLSConnection
        private let record: (BinaryFrame) -> Void
        private var decoder = BinaryFrameDecoder()
        private var frames: ArraySlice<BinaryFrame> = []

        fileprivate init(_ connection: TLSConnection, record: @escaping (BinaryFrame) -> Void) {
            self.connection = connection
            self.record = record
        }

        /// Reads frames up to a number of them; fewer at the client's end or after 20 seconds.
        @discardableResult
        package func read(_ count: Int) -> [BinaryFrame] {
            var read: [BinaryFrame] = []
            var buffer = [UInt8](repeating: 0, count: 64 << 10)
            while read.count < count {
                if let frame = frames.popFirst() {
                    record(frame)
                    read.append(frame)
                    continue
                }
                var more: [BinaryFrame] = []
                let isOpen = buffer.withUnsafeMutableBytes { bytes in
                    guard
                        case .bytes(let size)? = try? connection.read(
                            into: bytes, deadline: .in(.seconds(20)))
                    else { return false }
                    decoder.decode(UnsafeRawBufferPointer(rebasing: bytes[..<size]), into: &more)
                    return true
                }
                guard isOpen else { return read }
                frames = more[...]
            }
            return read
        }

        /// Sends bytes as they are.
        package func say(_ bytes: [UInt8]) {
            bytes.withUnsafeBytes { try? connection.write($0, deadline: .in(.seconds(5))) }
        }

        /// Sends an error packet.
        package func say(_ status: BinaryStatus, _ identifier: UInt32) {
            var bytes: [UInt8] = []
            BinaryErrorPacket(status, identifier: identifier).encode(into: &bytes)
            say(bytes)
        }

        /// Ends the connection with close_notify.
        package func close() { connection.close() }
        /// Resets the connection.
        package func reset() { connection.reset() }
    }

    private let listener: TLSListener
    private let context: TLSServerContext
    private let interrupt: Interrupt
    private let records: Records

    /// The thread's data, apart from the peer, so that the thread does not keep the peer alive.
    private final class Records: Sendable {
        let frames = Mutex<[[BinaryFrame]]>([])
    }

    /// Its port on 127.0.0.1.
    package var port: UInt16 { listener.port }
    /// The frames that it read, by connection.
    package var frames: [[BinaryFrame]] { records.frames.withLock { $0 } }

    /// Starts to listen. `script` gets the number of each connection, from 0, and the connection; what
    /// it leaves open is closed.
    package init(
        _ certificates: SimulatorCertificates,
        _ script: @escaping @Sendable (Int, Wire) -> Void
    ) throws {
        context = try TLSServerContext(
            identity: certificates.identity(.server), clients: .notAsked)
        listener = try TLSListener()
        interrupt = try Interrupt()
        records = Records()
        let (listener, context, interrupt, records) = (listener, context, interrupt, records)
        let thread = Thread {
            var number = 0
            while let client = try? listener.accept(deadline: .never, interrupt: interrupt) {
                guard
                    let connection = try? client.handshake(
                        context: context, timeout: .seconds(5), interrupt: interrupt)
                else { continue }
                let place = number
                records.frames.withLock { $0.append([]) }
                let wire = Wire(connection) { frame in
                    records.frames.withLock { $0[place].append(frame) }
                }
                script(number, wire)
                number += 1
            }
        }
        thread.start()
    }

    deinit { interrupt.trip() }
}
