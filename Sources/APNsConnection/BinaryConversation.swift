import APNsProtocol

// The decisions about connections to a binary gateway, as a value: what happened in, decisions out.
// The thread that owns the socket performs them.
//
// A connection serves a whole batch and the batches after it. It ends in one of these ways:
//   an error packet that names a notification   progress: the next connection follows at once
//   an error packet or an end that says nothing about what was sent
//                                               what was on the wire is of unknown outcome
//   an end while nothing is open                usual for gateways that drop idle connections
// A gateway that refuses each notification ends a connection for each. The pause between such
// connections doubles until one of them brings an accepted notification. After three connections in a
// row without any progress the gateway is given up.

/// The state machine for one binary connection after another.
struct BinaryConversation {
    /// Connections in a row without progress before the gateway is given up.
    static let mostFailures = 3
    /// The pause after a connection that brought only a refusal, in milliseconds; it doubles.
    static let firstPause = 10
    /// The longest of these pauses in milliseconds.
    static let longestPause = 1_000

    /// The most open notifications of a connection after a loss, before one was accepted on it.
    static let firstAfterLoss = 3
    /// Accepted notifications of one connection that end the caution after a loss.
    static let enoughAfterLoss = 1_000

    /// The open notifications of the present connection.
    var window: BinaryWindow
    private let hasIdentifiers: Bool
    private var failures = 0
    private var refusals = 0
    private var hasProgress = false
    /// Whether an end without a word has left notifications unknown, and too few were accepted since.
    private var isCautious = false
    /// Notifications that were accepted on the present connection.
    private var acceptedHere = 0
    private var hasRefusal = false
    /// Whether a notification was accepted on any connection, so that the certificate is a good one.
    private(set) var hasSucceeded = false

    /// Begins before the first connection; `wait` is the time of silence in milliseconds after which
    /// a received notification counts as accepted. Without identifiers an error packet names nothing.
    init(wait: Int64, hasIdentifiers: Bool = true) {
        self.hasIdentifiers = hasIdentifiers
        window = BinaryWindow(wait: wait)
    }

    /// A new connection begins.
    mutating func connected() {
        window.clear()
        (hasProgress, hasRefusal) = (false, false)
        acceptedHere = 0
    }

    /// How many more notifications may be open, of at most `most`, as far as identifiers last. After a
    /// loss a connection gets three, and then twice as many as were accepted on it: a gateway whose host
    /// acknowledges what nobody reads costs few.
    func room(of most: Int) -> Int {
        let limit = isCautious ? min(most, max(Self.firstAfterLoss, 2 * acceptedHere)) : most
        return min(limit - window.count, window.identifiersLeft)
    }

    /// The gateway's host has received `offset` bytes; returns the keys of the notifications that
    /// are accepted by now.
    mutating func received(_ offset: Int, at now: Int64) -> [UInt64] {
        window.received(offset, at: now)
        let settled = window.settle(at: now)
        if !settled.isEmpty { (hasProgress, hasSucceeded) = (true, true) }
        acceptedHere += settled.count
        if acceptedHere >= Self.enoughAfterLoss { isCautious = false }
        return settled
    }

    /// Decides about the open notifications after an error packet, or after an end without one, with
    /// `sent` bytes on the wire.
    mutating func resolve(_ packet: BinaryErrorPacket?, sent: Int) -> BinaryWindow.Resolution {
        let resolution =
            if let packet, hasIdentifiers {
                window.resolve(packet, sent: sent)
            } else if packet != nil {
                window.abandonAfterPacket(sent: sent)
            } else {
                window.abandon(sent: sent)
            }
        if !resolution.accepted.isEmpty { (hasProgress, hasSucceeded) = (true, true) }
        if resolution.refused != nil || resolution.settledTooEarly > 0 { hasRefusal = true }
        if !resolution.unknown.isEmpty { isCautious = true }
        return resolution
    }

    /// Decides after the connection has ended or could not be made: milliseconds to the next one, before
    /// jitter; nil to give the gateway up.
    mutating func ended() -> Int? {
        defer { (hasProgress, hasRefusal) = (false, false) }
        if hasProgress {
            (failures, refusals) = (0, 0)
            return 0
        }
        if hasRefusal {
            failures = 0
            refusals += 1
            return min(Self.firstPause << min(refusals, 10), Self.longestPause)
        }
        failures += 1
        return failures >= Self.mostFailures ? nil : 250 << failures
    }
}

// The notifications of one binary connection whose fate is open.
//
// The interface answers nothing when all is well. One error packet ends the connection. It names a
// notification by its identifier, and with that it decides about all others: those before it were
// processed, those after it were dropped unread. Without a packet only time decides: a notification
// that the gateway's host has received, and that brought no error for a while, counts as accepted.
//
//   on the wire --received by the host, then silence for the wait--> accepted
//        |
//        +-- a packet names a later one, or this one as the last of a shutdown --> accepted
//        +-- a packet names this one --> refused
//        +-- a packet names an earlier one --> to be sent again
//        +-- the connection ends without a usable packet --> unknown, unless its last byte was never sent
//
// Identifiers count up from 1 on each connection, so the place of a notification is a subtraction. A
// packet may name one that silence has settled already. It was called accepted too early then: the
// ones after it that are still here are sent again, and the others are counted as settled too early.

/// Notifications on the wire of one binary connection, in the order of their identifiers.
struct BinaryWindow {
    /// What an error packet, or the end without one, says about the open notifications.
    struct Resolution {
        /// Processed without an error, by their keys.
        var accepted: [UInt64] = []
        /// Refused, with the status.
        var refused: (notification: PushNotification, status: BinaryStatus)?
        /// Certainly not processed: to be sent on another connection.
        var again: ArraySlice<PushNotification> = []
        /// On the wire, without a word about them.
        var unknown: ArraySlice<PushNotification> = []
        /// The least number of notifications that silence had settled as accepted and that were not
        /// processed.
        var settledTooEarly = 0
    }

    /// The wait after a receipt, in milliseconds.
    private let wait: Int64
    /// The open notifications, as slices of the lists in which they came: none of them is copied.
    private var batches: [ArraySlice<PushNotification>] = []
    /// For each notification, the number of bytes of the connection up to its end.
    private var ends: [Int] = []
    /// The place in `ends` of the first open notification.
    private var head = 0
    /// The moments at which the gateway's host had received a number of bytes.
    private var receipts: [(offset: Int, time: Int64)] = []
    /// The identifier of the first open notification.
    private(set) var first: UInt32 = 1
    /// The identifier of the next notification.
    private(set) var next: UInt32 = 1

    /// Begins a connection. A notification counts as accepted `wait` milliseconds after its receipt.
    init(wait: Int64) { self.wait = wait }

    /// Number of open notifications.
    var count: Int { ends.count - head }
    /// Whether none is open.
    var isEmpty: Bool { count == 0 }
    /// Number of identifiers of this connection that are not used.
    var identifiersLeft: Int { Int(UInt32.max - next) }

    /// Takes notifications in, whose frames end at these numbers of bytes of the connection.
    ///
    /// - Precondition: each notification has its end, and an identifier is left for it.
    mutating func append(_ batch: ArraySlice<PushNotification>, ends: [Int]) {
        precondition(batch.count == ends.count)
        guard !batch.isEmpty else { return }
        batches.append(batch)
        self.ends += ends
        next += UInt32(ends.count)
    }

    // MARK: Silence

    /// The host of the gateway has received `offset` bytes, by a monotonic clock in milliseconds.
    mutating func received(_ offset: Int, at now: Int64) {
        guard !isEmpty else { return }
        if let last = receipts.last {
            guard offset > last.offset, now - last.time >= wait / 64 else { return }
        }
        receipts.append((offset, now))
    }

    /// Removes the notifications that silence has settled by now, and returns their keys.
    mutating func settle(at now: Int64) -> [UInt64] {
        var settled: Int?
        while let first = receipts.first, now - first.time >= wait {
            settled = first.offset
            receipts.removeFirst()
        }
        guard let settled else { return [] }
        var end = head
        while end < ends.count, ends[end] <= settled { end += 1 }
        return removeFirst(end - head)
    }

    private mutating func removeFirst(_ count: Int) -> [UInt64] {
        var keys: [UInt64] = []
        keys.reserveCapacity(count)
        var used = 0
        while keys.count < count {
            let batch = batches[used]
            let part = batch.prefix(count - keys.count)
            for place in part.indices { keys.append(part[place].key) }
            if part.count == batch.count {
                used += 1
            } else {
                batches[used] = batch[part.endIndex...]
            }
        }
        batches.removeFirst(used)
        head += count
        first += UInt32(count)
        // Moving the rest costs each end one move at most.
        if head >= ends.count / 2 {
            ends.removeFirst(head)
            head = 0
        }
        return keys
    }

    // MARK: The end of the connection

    /// Decides after an error packet, with `sent` bytes on the wire. The window is empty afterwards.
    mutating func resolve(_ packet: BinaryErrorPacket, sent: Int) -> Resolution {
        // "No errors" says nothing about the ones after the named one.
        guard packet.status != .noErrors else { return abandon(sent: sent) }
        let isDone = packet.status == .shutdown
        var resolution = Resolution()
        if packet.identifier > 0, packet.identifier < first {
            // The named one is refused itself, unless the gateway says that it was its last good one.
            resolution.settledTooEarly = Int(first - packet.identifier) - (isDone ? 1 : 0)
            resolution.again = open
            clear()
            return resolution
        }
        guard packet.identifier >= first, packet.identifier < next,
            ends[head + Int(packet.identifier - first)] <= sent
        else {
            return abandonAfterPacket(sent: sent)
        }
        defer { clear() }
        let open = open
        let place = Int(packet.identifier - first)
        resolution.accepted = open[..<(isDone ? place + 1 : place)].map(\.key)
        if !isDone { resolution.refused = (open[place], packet.status) }
        resolution.again = open[(place + 1)...]
        return resolution
    }

    /// Decides after an end without an error packet: what was not sent whole, of `sent` bytes, was not
    /// processed, and nothing is known about the rest. The window is empty afterwards.
    mutating func abandon(sent: Int) -> Resolution {
        defer { clear() }
        var end = head
        while end < ends.count, ends[end] <= sent { end += 1 }
        var resolution = Resolution()
        let open = open
        resolution.unknown = open[..<(end - head)]
        resolution.again = open[(end - head)...]
        return resolution
    }

    /// Decides after an error packet that names none of ours. Where none is open it can only be about
    /// one that silence has settled.
    mutating func abandonAfterPacket(sent: Int) -> Resolution {
        let hasSettled = first > 1
        var resolution = abandon(sent: sent)
        if resolution.unknown.isEmpty, hasSettled { resolution.settledTooEarly = 1 }
        return resolution
    }

    /// All open notifications, from place 0 on.
    private var open: ArraySlice<PushNotification> { Array(batches.joined())[...] }

    mutating func clear() { self = BinaryWindow(wait: wait) }
}
