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

import APNsProtocol

/// Notifications on the wire of one binary connection, in the order of their identifiers.
struct BinaryWindow {
    /// What an error packet, or the end without one, says about the open notifications.
    struct Resolution {
        /// Processed without an error, by their keys.
        var accepted: [UInt64] = []
        /// Refused, with the status.
        var refused: (notification: ProviderNotification, status: BinaryStatus)?
        /// Certainly not processed: to be sent on another connection.
        var again: ArraySlice<ProviderNotification> = []
        /// On the wire, without a word about them.
        var unknown: ArraySlice<ProviderNotification> = []
        /// The least number of notifications that silence had settled as accepted and that were not
        /// processed.
        var settledTooEarly = 0
    }

    /// A moment at which the gateway's host had received a number of bytes.
    private struct Receipt {
        let offset: Int
        let time: Int64
    }

    /// The wait after a receipt, in milliseconds.
    private let wait: Int64
    /// The open notifications, as slices of the lists in which they came: none of them is copied.
    private var batches: [ArraySlice<ProviderNotification>] = []
    /// For each notification, the number of bytes of the connection up to its end.
    private var ends: [Int] = []
    /// The place in `ends` of the first open notification.
    private var head = 0
    private var receipts: [Receipt] = []
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
    mutating func append(_ batch: ArraySlice<ProviderNotification>, ends: [Int]) {
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
        receipts.append(Receipt(offset: offset, time: now))
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

    /// The time of the next look at what silence settles; nil while no receipt is open.
    var nextSettlement: Int64? { receipts.first.map { $0.time + wait } }

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
    private var open: ArraySlice<ProviderNotification> { Array(batches.joined())[...] }

    private mutating func clear() { self = BinaryWindow(wait: wait) }
}
