import Foundation
import Synchronization

// A proxy between a client and MariaDB servers on this machine, without TLS. It relays every byte of the
// primary's conversation. With a second server it also splits: a SELECT outside of a transaction that locks
// nothing goes to that one, as ProxySQL's and MaxScale's splitting rules do. Statements that set the session
// go to both.
//
//   client --greeting, login--> both servers (an account without a password answers no challenge)
//   client --SET--------------> both; the second server's answer is dropped
//   client --PREPARE----------> primary; at its first execution elsewhere the router prepares it there too
//   client --EXECUTE, QUERY---> primary, or the second server
//
// It can also end every connection, at a chosen COMMIT before its answer: the host is then gone. And it can refuse
// a statement with an error number, which the server does not see then.

/// A proxy that relays to one server, or splits reads from changes.
package final class SQLRouter: Sendable {
    /// The moment at which the host dies.
    package enum Death: Sendable {
        /// After the primary has executed the COMMIT with this number, counted over all connections
        /// from 1, and before the client hears of it.
        case unansweredCommit(Int)
        /// Before the COMMIT with this number reaches the primary.
        case commit(Int)
    }

    /// Its port on 127.0.0.1.
    package let port: Int
    private let state: RouterState

    /// The texts of the SELECTs that went to the second server.
    package var split: [String] { state.shared.withLock { $0.split } }
    /// The number of connections of clients.
    package var connections: Int { state.shared.withLock { $0.connections } }
    /// Whether the host has died.
    package var isDead: Bool { state.shared.withLock { $0.isDead } }

    /// Starts to listen. `reads` is the port of the second server.
    package init(primary: Int, reads: Int? = nil, dying death: Death? = nil) throws {
        let listener: Int32
        (listener, port) = try LocalSocket.listen()
        let state = RouterState(
            listener: listener, primary: primary, reads: reads, death: death)
        self.state = state
        Thread.detachNewThread { state.serve() }
    }

    /// Ends all connections and refuses new ones.
    package func die() { state.die() }

    /// Answers the next unprepared statements of this text with these error numbers, one each, instead of
    /// the server.
    package func refuse(_ text: String, with codes: [UInt16]) {
        state.shared.withLock { $0.refusals[text, default: []] += codes }
    }

    deinit { state.die() }
}

/// The data of the router's threads, apart from it, so that they do not keep it alive.
private final class RouterState: Sendable {
    struct Shared {
        var isDead = false
        var isListening = true
        var connections = 0
        var commits = 0
        var split: [String] = []
        var open: Set<Int32> = []
        var refusals: [String: [UInt16]] = [:]
    }

    let shared = Mutex(Shared())
    let primary: Int
    let reads: Int?
    private let listener: Int32
    private let death: SQLRouter.Death?

    init(listener: Int32, primary: Int, reads: Int?, death: SQLRouter.Death?) {
        (self.listener, self.primary, self.reads, self.death) = (listener, primary, reads, death)
    }

    func serve() {
        while true {
            let client = accept(listener, nil, nil)
            let isDead = shared.withLock { $0.isDead }
            guard client >= 0, !isDead else {
                if client >= 0 { close(client) }
                break
            }
            shared.withLock { $0.connections += 1 }
            Thread.detachNewThread { [self] in
                if let conversation = RouterConversation(client, self) { conversation.relay() }
                close(client)
            }
        }
        shared.withLock { $0.isListening = false }
        close(listener)
    }

    func keep(_ descriptors: [Int32]) -> Bool {
        shared.withLock { shared in
            shared.open.formUnion(descriptors)
            return !shared.isDead
        }
    }

    func drop(_ descriptors: [Int32]) {
        shared.withLock { shared in
            shared.open.subtract(descriptors)
            for descriptor in descriptors { close(descriptor) }
        }
    }

    /// Only this state's threads close descriptors; shutting down wakes them.
    func die() {
        shared.withLock { shared in
            guard !shared.isDead else { return }
            shared.isDead = true
            for descriptor in shared.open { shutdown(descriptor, Int32(SHUT_RDWR)) }
            if shared.isListening { shutdown(listener, Int32(SHUT_RDWR)) }
        }
    }

    /// Counts a COMMIT; says whether the host dies at it, before or after it is executed.
    func commits() -> (before: Bool, after: Bool) {
        let number = shared.withLock { shared in
            shared.commits += 1
            return shared.commits
        }
        switch death {
        case .commit(number): return (true, false)
        case .unansweredCommit(number): return (false, true)
        default: return (false, false)
        }
    }

    func note(split text: String) { shared.withLock { $0.split.append(text) } }
}

/// One client's conversation.
private final class RouterConversation {
    private let client: Int32
    private let state: RouterState
    private let primary: Int32
    private let reads: Int32?
    private var isInTransaction = false
    private var endsWithoutMarks = false
    /// The text of each prepared statement, by the primary's number.
    private var texts: [UInt32: String] = [:]
    /// The second server's number of a statement, by the primary's.
    private var numbers: [UInt32: UInt32] = [:]

    init?(_ client: Int32, _ state: RouterState) {
        self.client = client
        self.state = state
        guard let primary = LocalSocket.connect(state.primary) else { return nil }
        self.primary = primary
        var reads: Int32?
        if let port = state.reads {
            guard let second = LocalSocket.connect(port) else {
                close(primary)
                return nil
            }
            reads = second
        }
        self.reads = reads
    }

    private var descriptors: [Int32] { [primary] + (reads.map { [$0] } ?? []) }

    func relay() {
        defer { state.drop(descriptors) }
        guard state.keep(descriptors) else { return }
        let logsIn = login()
        // The client's descriptor may be shut down from now on, and is closed by its thread.
        guard logsIn, state.keep([client]) else { return }
        defer { _ = state.shared.withLock { $0.open.remove(client) } }
        while let command = LocalSocket.packet(client) {
            guard handle(command) else { return }
        }
    }

    private func login() -> Bool {
        guard let greeting = LocalSocket.packet(primary), LocalSocket.send(client, greeting),
            let login = LocalSocket.packet(client), login.count > 8
        else { return false }
        // CLIENT_DEPRECATE_EOF.
        endsWithoutMarks = login[7] & 0x01 != 0
        guard LocalSocket.send(primary, login) else { return false }
        if let reads {
            guard LocalSocket.packet(reads) != nil, LocalSocket.send(reads, login),
                let answer = LocalSocket.packet(reads), answer.count > 4, answer[4] == 0
            else { return false }
        }
        return relayAnswer(from: primary)
    }

    /// Relays what a server answers, until the client sends the next command.
    private func relayAnswer(from server: Int32) -> Bool {
        var waiting = [
            pollfd(fd: server, events: Int16(POLLIN), revents: 0),
            pollfd(fd: client, events: Int16(POLLIN), revents: 0),
        ]
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            guard poll(&waiting, 2, -1) > 0 else { return false }
            if waiting[0].revents != 0 {
                let count = recv(server, &buffer, buffer.count, 0)
                guard count > 0, LocalSocket.send(client, Array(buffer[..<count])) else {
                    return false
                }
                continue
            }
            return waiting[1].revents & Int16(POLLIN) != 0
        }
    }

    private func handle(_ packet: [UInt8]) -> Bool {
        guard packet.count > 4 else { return false }
        let body = packet.dropFirst(5)
        switch packet[4] {
        case 0x01: return false
        case 0x03: return query(packet, String(decoding: body, as: UTF8.self))
        case 0x16: return prepare(packet, String(decoding: body, as: UTF8.self))
        case 0x17: return execute(packet)
        case 0x19: return closeStatement(packet)
        default:
            return LocalSocket.send(primary, packet) && relayAnswer(from: primary)
        }
    }

    /// The error packet for a statement that is to be refused.
    private func refusal(of text: String) -> [UInt8]? {
        let code = state.shared.withLock { shared -> UInt16? in
            guard let codes = shared.refusals[text], let first = codes.first else { return nil }
            shared.refusals[text] = Array(codes.dropFirst())
            return first
        }
        guard let code else { return nil }
        let body =
            [0xFF, UInt8(truncatingIfNeeded: code), UInt8(code >> 8)]
            + Array("#HY000refused by the router".utf8)
        return [UInt8(body.count), 0, 0, 1] + body
    }

    private func query(_ packet: [UInt8], _ text: String) -> Bool {
        if let refusal = refusal(of: text) { return LocalSocket.send(client, refusal) }
        if text.hasPrefix("START TRANSACTION") { isInTransaction = true }
        if text == "COMMIT" || text == "ROLLBACK" { isInTransaction = false }
        if text == "COMMIT" {
            let death = state.commits()
            if death.before { state.die() }
            if death.after {
                _ = LocalSocket.send(primary, packet)
                _ = LocalSocket.packet(primary)
                state.die()
            }
        }
        if let reads, text.hasPrefix("SET") {
            guard LocalSocket.send(reads, packet), LocalSocket.packet(reads) != nil else {
                return false
            }
        }
        let server = server(for: text)
        return LocalSocket.send(server, packet) && relayAnswer(from: server)
    }

    private func server(for text: String) -> Int32 {
        guard let reads, !isInTransaction, text.hasPrefix("SELECT"), !text.hasSuffix("FOR UPDATE")
        else { return primary }
        state.note(split: text)
        return reads
    }

    private func prepare(_ packet: [UInt8], _ text: String) -> Bool {
        guard LocalSocket.send(primary, packet), let answer = LocalSocket.packet(primary),
            answer.count > 4
        else { return false }
        if answer[4] == 0, answer.count >= 9 { texts[Self.number(answer, at: 5)] = text }
        return LocalSocket.send(client, answer) && relayAnswer(from: primary)
    }

    private func execute(_ packet: [UInt8]) -> Bool {
        guard packet.count >= 9 else { return false }
        let number = Self.number(packet, at: 5)
        let text = texts[number] ?? ""
        let server = server(for: text)
        guard server == reads else {
            return LocalSocket.send(primary, packet) && relayAnswer(from: primary)
        }
        guard let known = numbers[number] ?? prepareElsewhere(text) else { return false }
        numbers[number] = known
        var packet = packet
        for byte in 0..<4 { packet[5 + byte] = UInt8(truncatingIfNeeded: known >> (8 * byte)) }
        return LocalSocket.send(server, packet) && relayAnswer(from: server)
    }

    /// Prepares a statement on the second server, and drops the answer but for its number.
    private func prepareElsewhere(_ text: String) -> UInt32? {
        guard let reads else { return nil }
        let body = [0x16] + Array(text.utf8)
        let head = (0..<3).map { UInt8(truncatingIfNeeded: body.count >> (8 * $0)) }
        guard LocalSocket.send(reads, head + [0] + body), let answer = LocalSocket.packet(reads),
            answer.count >= 13, answer[4] == 0
        else { return nil }
        let columns = Int(answer[9]) | Int(answer[10]) << 8
        let places = Int(answer[11]) | Int(answer[12]) << 8
        for count in [places, columns] where count > 0 {
            for _ in 0..<(count + (endsWithoutMarks ? 0 : 1))
            where LocalSocket.packet(reads) == nil {
                return nil
            }
        }
        return Self.number(answer, at: 5)
    }

    /// Closing has no answer.
    private func closeStatement(_ packet: [UInt8]) -> Bool {
        guard packet.count >= 9 else { return false }
        texts[Self.number(packet, at: 5)] = nil
        numbers[Self.number(packet, at: 5)] = nil
        return LocalSocket.send(primary, packet)
    }

    private static func number(_ packet: [UInt8], at place: Int) -> UInt32 {
        (0..<4).reduce(0) { $0 | UInt32(packet[place + $1]) << (8 * UInt32($1)) }
    }
}
