// Performs the decisions of BinaryConversation: one thread, one connection at a time. The thread writes
// frames in pieces, looks for an error packet after each, and settles what the gateway's host has
// received and silence has confirmed. It connects when the first notification waits, and keeps the
// connection for as long as the gateway does.
//
// Bytes that the kernel has taken are not received yet: a gateway that reads nothing would be called
// silent. So the kernel is asked how many bytes its peer has not acknowledged (tcp(7), SIOCOUTQ), and
// only the others begin their wait.

import APNsProtocol
import Dispatch
import Encodings
import SecureTransport

/// One connection after another to a binary gateway, on one thread.
struct BinaryConnection: ~Copyable {
    /// The wait for work after which the connection is checked for an end.
    private static let idleMilliseconds = 1_000
    /// The longest wait for the gateway while notifications may come.
    private static let watch = Duration.milliseconds(5)
    /// The wait for an error packet on a connection that no longer takes bytes.
    private static let lastWords = Duration.seconds(2)
    /// The bytes of frames of one write: some records of TLS.
    private static let piece = 64 << 10

    private let plan: BinaryPlan
    private let queues: ProviderQueues
    private let interrupt: Interrupt
    private let late: LateRefusals
    private var conversation: BinaryConversation
    private var connection: TLSConnection?
    private var again: ArraySlice<ProviderNotification> = []
    private var frames: [UInt8] = []
    private var errors = BinaryErrorDecoder()
    private var lastFailure: ProviderFailure?
    /// The bytes that the gateway's host has received, and since when there were no more.
    private var progress: (received: Int, since: Int64) = (0, 0)

    init(
        _ plan: BinaryPlan, _ queues: ProviderQueues, _ interrupt: Interrupt, _ late: LateRefusals
    ) {
        self.plan = plan
        self.queues = queues
        self.interrupt = interrupt
        self.late = late
        conversation = BinaryConversation(
            wait: max(1, Int64(plan.limits.errorWait / .milliseconds(1))))
    }

    /// Milliseconds of a monotonic clock.
    private static var clock: Int64 { Int64(DispatchTime.now().uptimeNanoseconds / 1_000_000) }

    /// Sends until a request to stop, or until the gateway has to be given up; then returns the reason.
    mutating func run() -> ProviderFailure? {
        while true {
            do throws(ProviderFailure) {
                guard try step() else { break }
            } catch {
                lastFailure = error
                break
            }
        }
        if let connection {
            settle(connection)
            if self.connection != nil {
                finish(
                    conversation.lost(sent: connection.bytesWritten), "the connection was closed")
                connection.close()
            }
        }
        queues.deliver(again.map { ProviderOutcome(key: $0.key, kind: .untouched) })
        return queues.isStopping ? nil : lastFailure
    }

    /// One round of sending and looking; false when the thread must end.
    private mutating func step() throws(ProviderFailure) -> Bool {
        let isOpen = connection != nil && !conversation.window.isEmpty
        if queues.isStopping, interrupt.isTripped || !isOpen { return false }
        guard let connection else {
            if again.isEmpty && queues.count == 0 {
                queues.awaitNotifications(within: Self.idleMilliseconds)
                return true
            }
            return try connect()
        }
        let hasWritten = try write(to: connection)
        guard self.connection != nil else { return try pause() }
        if !hasWritten, conversation.window.isEmpty {
            guard !conversation.isDraining else { return try leave(connection) }
            queues.awaitNotifications(within: Self.idleMilliseconds)
        }
        let isWaiting = !hasWritten && !conversation.window.isEmpty
        listen(to: connection, until: isWaiting ? .in(Self.watch) : .now)
        guard self.connection != nil else { return try pause() }
        settle(connection)
        return true
    }

    // MARK: Writing

    /// Writes as many frames as the window has room for, one piece at most; false if there were none.
    private mutating func write(to connection: TLSConnection) throws(ProviderFailure) -> Bool {
        let room = plan.window - conversation.window.count
        guard room > 0, !queues.isStopping, !conversation.isDraining else { return false }
        if again.isEmpty { again = queues.takeNotifications(room)[...] }
        guard !again.isEmpty else { return false }
        frames.removeAll(keepingCapacity: true)
        let start = connection.bytesWritten
        var count = 0
        while count < min(room, again.count), frames.count < Self.piece, !conversation.isDraining {
            let notification = again[again.startIndex + count]
            count += 1
            do throws(BinaryFault) {
                try plan.frame(notification, conversation.nextIdentifier).encode(into: &frames)
                conversation.put(notification, end: start + frames.count)
            } catch {
                queues.deliver([
                    ProviderOutcome(key: notification.key, kind: .unsendable(error))
                ])
            }
        }
        again = again.dropFirst(count)
        guard let failure = write(frames, to: connection) else { return true }
        // The gateway may have said why before it stopped taking bytes.
        listen(to: connection, until: .in(Self.lastWords))
        if self.connection != nil {
            lose(connection, ProviderFailure(failure, hasConnected: queues.hasConnected))
        }
        return true
    }

    private func write(_ bytes: [UInt8], to connection: TLSConnection) -> TransportFailure? {
        bytes.withUnsafeBytes { buffer in
            do throws(TransportFailure) {
                try connection.write(buffer, deadline: .in(plan.limits.write))
                return nil
            } catch {
                return error
            }
        }
    }

    // MARK: Listening

    /// Reads what the gateway says. Its first word is its last: an error packet, or the end.
    private mutating func listen(to connection: TLSConnection, until deadline: Deadline) {
        var buffer = (UInt64(0), UInt64(0))
        while true {
            do throws(TransportFailure) {
                let outcome = try withUnsafeMutableBytes(of: &buffer) {
                    (bytes) throws(TransportFailure) in
                    try connection.read(into: bytes, deadline: deadline)
                }
                switch outcome {
                case .timedOut, .interrupted: return
                case .bytes(let count):
                    withUnsafeBytes(of: buffer) {
                        errors.decode(UnsafeRawBufferPointer(rebasing: $0.prefix(count)))
                    }
                case .end(let end):
                    let verb = end == .reset ? "reset" : "closed"
                    return lose(
                        connection,
                        ProviderFailure(
                            .unreachable,
                            "binary interface of \(plan.name): it \(verb) the connection with "
                                + "\(errors.answer)"))
                }
            } catch {
                return lose(connection, ProviderFailure(error, hasConnected: queues.hasConnected))
            }
            switch errors.answer {
            case .nothing, .unfinished: continue
            case .packet(let packet): return answered(connection, packet)
            case .foreign:
                return lose(
                    connection,
                    ProviderFailure(
                        .protocolBroken,
                        "binary interface of \(plan.name): it sent \(errors.answer); check that a "
                            + "binary gateway listens at that port"))
            }
        }
    }

    /// An error packet has arrived whole.
    private mutating func answered(_ connection: TLSConnection, _ packet: BinaryErrorPacket) {
        let words =
            "binary interface of \(plan.name): it ended the connection with \(errors.answer)"
        // Without identifiers the packet names nothing.
        let resolution =
            plan.command == .simple
            ? conversation.lost(sent: connection.bytesWritten) : conversation.refused(packet)
        close(connection)
        lastFailure = ProviderFailure(.unreachable, words)
        finish(resolution, "the gateway answered \(packet)")
    }

    /// The connection has ended without an error packet.
    private mutating func lose(_ connection: TLSConnection, _ failure: ProviderFailure) {
        let received = connection.bytesWritten - connection.unacknowledgedBytes
        deliver(conversation.received(min(received, progress.received), at: Self.clock), .accepted)
        // Under TLS 1.3 a refused certificate shows after the first frames, and none of them was read.
        let sent = failure.code == .configuration ? 0 : connection.bytesWritten
        let resolution = conversation.lost(sent: sent)
        close(connection)
        lastFailure = failure
        if !resolution.unknown.isEmpty { plan.log("\(failure)") }
        finish(
            resolution, "the connection ended with \(errors.answer)",
            isGarbled: failure.code == .protocolBroken)
    }

    private mutating func close(_ connection: TLSConnection) {
        connection.close()
        self.connection = nil
    }

    /// Settles what the gateway's host has received a while ago.
    private mutating func settle(_ connection: TLSConnection) {
        let (now, received) = (
            Self.clock, connection.bytesWritten - connection.unacknowledgedBytes
        )
        if received > progress.received || conversation.window.isEmpty {
            progress = (received, now)
        }
        deliver(conversation.received(received, at: now), .accepted)
        guard received < connection.bytesWritten,
            Duration.milliseconds(now - progress.since) > plan.limits.write
        else { return }
        lose(
            connection,
            ProviderFailure(
                .unanswering,
                "binary interface of \(plan.name): its host acknowledged no byte for "
                    + "\(plan.limits.write.components.seconds) s"))
    }

    // MARK: Outcomes

    private mutating func finish(
        _ resolution: BinaryWindow.Resolution, _ reason: String, isGarbled: Bool = false
    ) {
        deliver(resolution.accepted, .accepted)
        if let refused = resolution.refused {
            queues.deliver([
                ProviderOutcome(key: refused.notification.key, kind: .refusedBinary(refused.status))
            ])
        }
        deliver(
            resolution.unknown.map(\.key), isGarbled ? .garbled(reason) : .unknown(reason))
        if !resolution.again.isEmpty { again = resolution.again + again }
        guard resolution.settledTooEarly > 0 else { return }
        late.count.wrappingAdd(resolution.settledTooEarly, ordering: .relaxed)
        plan.log(
            "\(plan.name) sent an error packet later than the wait; notifications that counted as sent "
                + "and were dropped: \(resolution.settledTooEarly)"
        )
    }

    private func deliver(_ keys: [UInt64], _ kind: ProviderOutcome.Kind) {
        queues.deliver(keys.map { ProviderOutcome(key: $0, kind: kind) })
    }

    // MARK: Connecting

    /// Ends a connection on which nothing is open.
    private mutating func leave(_ connection: TLSConnection) throws(ProviderFailure) -> Bool {
        close(connection)
        return true
    }

    private mutating func connect() throws(ProviderFailure) -> Bool {
        do throws(TransportFailure) {
            connection = try plan.connect(interrupt: interrupt)
            plan.log("connected to \(connection?.peer ?? plan.name)")
            queues.noteConnected()
            conversation.connected()
            errors = BinaryErrorDecoder()
            progress = (0, Self.clock)
            return true
        } catch {
            guard error.code != .interrupted else { return false }
            let failure = ProviderFailure(error, hasConnected: queues.hasConnected)
            lastFailure = failure
            plan.log("\(failure)")
            return try pause()
        }
    }

    /// Waits before the next connection; false when there must be no next one.
    private mutating func pause() throws(ProviderFailure) -> Bool {
        if let lastFailure, lastFailure.code == .configuration { throw lastFailure }
        switch conversation.ended() {
        case .milliseconds(0): return true
        case .milliseconds(let most):
            let pause = Duration.milliseconds(Int.random(in: most / 2...most)) * plan.limits.pace
            return !interrupt.wait(until: .in(pause))
        case .giveUp:
            if let lastFailure { throw lastFailure }
            return false
        }
    }
}
