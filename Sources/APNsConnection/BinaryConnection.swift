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
    /// The wait for a socket that is full, before the gateway is listened to again.
    private static let patience = Duration.milliseconds(50)
    /// The least wait for the refusal of a certificate before the first frame of all.
    private static let proof = Duration.milliseconds(300)
    /// The bytes of frames of one write: some records of TLS.
    private static let piece = 64 << 10

    private let plan: ProviderPlan
    private let queues: ProviderQueues
    private let interrupt: Interrupt
    private let command: BinaryCommand
    private var attributes: AttributeReader
    private var conversation: BinaryConversation
    private var connection: TLSConnection?
    private var again: ArraySlice<PushNotification> = []
    /// The present piece of frames, and how many of its bytes are written.
    private var frames: [UInt8] = []
    private var written = 0
    private var errors = BinaryErrorDecoder()
    private var lastFailure: ProviderFailure?
    /// The bytes that the gateway's host has received, and since when there were no more.
    private var progress: (received: Int, since: Int64) = (0, 0)

    init(
        _ plan: ProviderPlan, _ command: BinaryCommand, _ queues: ProviderQueues,
        _ interrupt: Interrupt
    ) {
        self.plan = plan
        self.queues = queues
        self.interrupt = interrupt
        self.command = command
        attributes = AttributeReader(plan.topic)
        conversation = BinaryConversation(
            wait: max(1, Int64(plan.limits.errorWait / .milliseconds(1))),
            hasIdentifiers: command != .simple)
        queues.addStreams(plan.window)
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
        queues.addStreams(-plan.window)
        // A packet may have come since the last look.
        if let connection { listen(to: connection, until: .now) }
        if let connection {
            settle(connection)
            if self.connection != nil {
                finish(
                    conversation.resolve(nil, sent: connection.bytesWritten),
                    "the connection was closed")
                connection.close()
            }
        }
        deliver(again.map(\.key), .untouched)
        return queues.isStopping ? nil : lastFailure
    }

    /// One round of sending and looking; false when the thread must end.
    private mutating func step() throws(ProviderFailure) -> Bool {
        let isOpen = connection != nil && !conversation.window.isEmpty
        if queues.isStopping, interrupt.isTripped || !isOpen { return false }
        // A process that was suspended may wake up when others have its rows. Errors are heard all the same.
        let mayGive = queues.mayGive()
        if !mayGive, connection == nil {
            return !interrupt.wait(until: .in(ProviderConnection.leaseWait))
        }
        guard let connection else {
            if again.isEmpty && queues.count == 0 {
                queues.awaitNotifications(within: Self.idleMilliseconds)
                return true
            }
            return try connect()
        }
        let hasWritten = mayGive ? try write(to: connection) : false
        guard self.connection != nil else { return try pause() }
        if !hasWritten, mayGive, conversation.window.isEmpty {
            guard conversation.window.identifiersLeft > 0 else {
                close(connection)
                return true
            }
            queues.awaitNotifications(within: Self.idleMilliseconds)
        }
        let isWaiting = !hasWritten && (!mayGive || !conversation.window.isEmpty)
        listen(to: connection, until: isWaiting ? .in(Self.watch) : .now)
        guard self.connection != nil else { return try pause() }
        settle(connection)
        return true
    }

    // MARK: Writing

    /// Writes what the socket takes of the present piece of frames, or makes the next piece; false if
    /// there was nothing to write.
    private mutating func write(to connection: TLSConnection) throws(ProviderFailure) -> Bool {
        if written == frames.count { encode(start: connection.bytesWritten) }
        guard written < frames.count else { return false }
        do throws(TransportFailure) {
            let rest = frames[written...]
            written += try rest.span.bytes.withUnsafeBytes {
                (bytes) throws(TransportFailure) in
                try connection.writePart(of: bytes, deadline: .in(Self.patience))
            }
        } catch {
            // The gateway may have said why before it stopped taking bytes.
            listen(to: connection, until: .in(Self.lastWords))
            if self.connection != nil {
                lose(connection, ProviderFailure(error, hasConnected: queues.hasConnected))
            }
        }
        return true
    }

    /// Makes the next piece of frames, as far as the window has room.
    private mutating func encode(start: Int) {
        frames.removeAll(keepingCapacity: true)
        written = 0
        let room = conversation.room(of: plan.window)
        guard room > 0, !queues.isStopping else { return }
        if again.isEmpty { again = queues.takeNotifications(room) }
        let end = again.startIndex + min(room, again.count)
        while again.startIndex < end, frames.count < Self.piece {
            let (ends, fault) = encode(again[..<end], start: start)
            conversation.window.append(again.prefix(ends.count), ends: ends)
            again = again.dropFirst(ends.count)
            if let fault, let refused = again.popFirst() {
                deliver([refused.key], .unsendable(fault))
            }
        }
    }

    /// Makes frames until the piece is full or a notification fits into no frame, whose fault it
    /// returns. `ends` are the places on the connection at which the frames end.
    private mutating func encode(
        _ list: ArraySlice<PushNotification>, start: Int
    ) -> (ends: [Int], fault: String?) {
        let first = conversation.window.next
        var ends: [Int] = []
        ends.reserveCapacity(min(list.count, Self.piece / 256))
        // Through a pointer no notification is copied.
        let fault = list.withUnsafeBufferPointer { list -> String? in
            for place in list.indices {
                guard frames.count < Self.piece else { break }
                if let fault = add(list[place], first + UInt32(place)) { return fault }
                ends.append(start + frames.count)
            }
            return nil
        }
        return (ends, fault)
    }

    /// Adds the frame of a notification; the reason where it does not fit into the interface. Command 1
    /// requires an expiration, so a notification without one is kept for a day. The interface has no
    /// priority 1, so that becomes 5.
    private mutating func add(_ notification: PushNotification, _ identifier: UInt32) -> String? {
        do {
            let attributes = try attributes.attributes(of: notification)
            try BinaryFrame(
                command, identifier: identifier,
                expiration: attributes.expiration ?? (command == .enhanced ? aDayFromNow : nil),
                priority: attributes.priority == .immediate ? .immediate : .conserving,
                token: notification.token, payload: notification.payload
            ).encode(into: &frames)
            return nil
        } catch let refusal as RequestRefusal {
            return "\(refusal.reason)"
        } catch {
            return (error as? BinaryFault)?.status.description ?? "\(error)"
        }
    }

    private var aDayFromNow: UInt32 { UInt32(clamping: Int64(plan.now().rawValue) + 86_400) }

    // MARK: Listening

    /// Reads what the gateway says. Its first word is its last: an error packet, or the end.
    private mutating func listen(to connection: TLSConnection, until deadline: Deadline) {
        var buffer = (UInt64(0), UInt64(0))
        var deadline = deadline
        while true {
            do throws(TransportFailure) {
                let outcome = try withUnsafeMutableBytes(of: &buffer) {
                    (bytes) throws(TransportFailure) in
                    try connection.read(into: bytes, deadline: deadline)
                }
                switch outcome {
                case .interrupted: return
                case .timedOut:
                    if case .nothing = errors.answer { return }
                    return lose(
                        connection, failure(.unreachable, "it sent \(errors.answer) and no more"))
                case .bytes(let count):
                    withUnsafeBytes(of: buffer) {
                        errors.decode(UnsafeRawBufferPointer(rebasing: $0.prefix(count)))
                    }
                case .end(let end):
                    let verb = end == .reset ? "reset" : "closed"
                    return lose(
                        connection,
                        failure(.unreachable, "it \(verb) the connection with \(errors.answer)"))
                }
            } catch {
                return lose(connection, ProviderFailure(error, hasConnected: queues.hasConnected))
            }
            switch errors.answer {
            case .nothing: continue
            // Nothing is written or settled before its other bytes are here.
            case .unfinished: deadline = .in(Self.lastWords)
            case .packet(let packet): return answered(connection, packet)
            case .foreign:
                return lose(
                    connection,
                    failure(
                        .protocolBroken,
                        "it sent \(errors.answer); check that a binary gateway listens at that port"
                    ))
            }
        }
    }

    private func failure(_ code: ProviderFailure.Code, _ words: String) -> ProviderFailure {
        ProviderFailure(code, "binary interface of \(plan.name): \(words)")
    }

    /// An error packet has arrived whole.
    private mutating func answered(_ connection: TLSConnection, _ packet: BinaryErrorPacket) {
        lastFailure = failure(.unreachable, "it ended the connection with \(errors.answer)")
        let resolution = conversation.resolve(packet, sent: connection.bytesWritten)
        close(connection)
        finish(resolution, "the gateway answered \(packet)")
    }

    /// The connection has ended without an error packet.
    private mutating func lose(_ connection: TLSConnection, _ failure: ProviderFailure) {
        if case .nothing = errors.answer {
            deliver(conversation.received(progress.received, at: Self.clock), .accepted)
        }
        let resolution = conversation.resolve(nil, sent: connection.bytesWritten)
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
        frames.removeAll(keepingCapacity: true)
        written = 0
    }

    /// Settles what the gateway's host has received a while ago.
    private mutating func settle(_ connection: TLSConnection) {
        guard case .nothing = errors.answer else { return }
        let (now, received) = (
            Self.clock, connection.bytesWritten - connection.unacknowledgedBytes
        )
        // The wait for acknowledgements begins when there are bytes to acknowledge.
        if received > progress.received || received == connection.bytesWritten {
            progress = (received, now)
        }
        deliver(conversation.received(received, at: now), .accepted)
        guard received < connection.bytesWritten,
            Duration.milliseconds(now - progress.since) > plan.limits.request
        else { return }
        let seconds = plan.limits.request.components.seconds
        lose(
            connection,
            failure(.unanswering, "its host acknowledged no byte for \(seconds) s"))
    }

    // MARK: Outcomes

    private mutating func finish(
        _ resolution: BinaryWindow.Resolution, _ reason: String, isGarbled: Bool = false
    ) {
        deliver(resolution.accepted, .accepted)
        if let refused = resolution.refused {
            deliver([refused.notification.key], .refusedBinary(refused.status))
        }
        deliver(
            resolution.unknown.map(\.key), isGarbled ? .garbled(reason) : .unknown(reason))
        if !resolution.again.isEmpty { again = resolution.again + again }
        if !resolution.unknown.isEmpty { giveBack() }
        guard resolution.settledTooEarly > 0 else { return }
        queues.addSettledTooEarly(resolution.settledTooEarly)
        plan.log(
            "\(plan.name) sent an error packet later than the wait; notifications that counted as sent "
                + "and were dropped, at the least: \(resolution.settledTooEarly)"
        )
    }

    /// After an end without a word the sender decides how many more the gateway may cost, so all that
    /// was not written goes back to it.
    private mutating func giveBack() {
        let unwritten = again + queues.withdraw()
        again = []
        deliver(unwritten.map(\.key), .untouched)
    }

    private func deliver(_ keys: [UInt64], _ kind: ProviderOutcome.Kind) {
        queues.deliver(keys.map { ProviderOutcome(key: $0, kind: kind) })
    }

    // MARK: Connecting

    private mutating func connect() throws(ProviderFailure) -> Bool {
        let began = Self.clock
        do throws(TransportFailure) {
            let connection = try plan.connect(interrupt)
            self.connection = connection
            queues.noteConnected()
            conversation.connected()
            errors = BinaryErrorDecoder()
            progress = (0, Self.clock)
            // Under TLS 1.3 the refusal of a certificate comes after the handshake. Before anything was
            // accepted, a frame is written only when it would have come. Later refusals leave unknown
            // what was written.
            guard !conversation.hasSucceeded else { return true }
            let proof = max(Self.proof, .milliseconds(3 * (Self.clock - began)))
            listen(to: connection, until: .in(proof))
        } catch {
            guard error.code != .interrupted else { return false }
            let failure = ProviderFailure(error, hasConnected: queues.hasConnected)
            lastFailure = failure
            plan.log("\(failure)")
            return try pause()
        }
        return connection == nil ? try pause() : true
    }

    /// Waits before the next connection; false when there must be no next one.
    private mutating func pause() throws(ProviderFailure) -> Bool {
        if let lastFailure, lastFailure.code == .configuration { throw lastFailure }
        if let most = conversation.ended() { return plan.pause(most, interrupt) }
        if let lastFailure { throw lastFailure }
        return false
    }
}
