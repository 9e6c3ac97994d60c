/// The notifications in flight on one connection, by slot. A slot is given out again only after its
/// notification has had its outcome, so an answer never meets another one's notification.
struct InFlightRequests {
    private struct Entry {
        let item: ProviderItem
        /// Which provider token it was sent with.
        let tokenSerial: Int?
    }

    private var entries: [Entry?] = []
    private var free: [Int] = []

    /// Whether nothing is in flight.
    var isEmpty: Bool { free.count == entries.count }

    /// Keeps a notification; gives its slot.
    mutating func insert(_ item: ProviderItem, tokenSerial: Int?) -> UInt64 {
        let entry = Entry(item: item, tokenSerial: tokenSerial)
        guard let slot = free.popLast() else {
            entries.append(entry)
            return UInt64(entries.count - 1)
        }
        entries[slot] = entry
        return UInt64(slot)
    }

    /// Takes a notification out by its slot; nil for one that is not in use.
    mutating func take(_ slot: UInt64) -> (item: ProviderItem, tokenSerial: Int?)? {
        guard let slot = Int(exactly: slot), entries.indices.contains(slot),
            let entry = entries[slot]
        else { return nil }
        entries[slot] = nil
        free.append(slot)
        return (entry.item, entry.tokenSerial)
    }

    /// Forgets a notification that was not sent after all.
    mutating func remove(_ slot: UInt64) { _ = take(slot) }

    /// Takes all out.
    mutating func removeAll() -> [ProviderItem] {
        defer { self = InFlightRequests() }
        return entries.compactMap { $0?.item }
    }
}
