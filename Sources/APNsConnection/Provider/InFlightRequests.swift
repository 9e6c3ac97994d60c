/// The notifications in flight on one connection, by slot. A slot is reused only after its
/// notification has an outcome, so an answer is never assigned to another notification.
struct InFlightRequests {
    private struct Entry {
        let item: ProviderItem
        /// The serial of the provider token it was sent with.
        let tokenSerial: Int?
    }

    private var entries: [Entry?] = []
    private var free: [Int] = []

    var isEmpty: Bool { free.count == entries.count }

    /// Stores a notification and returns its slot.
    mutating func insert(_ item: ProviderItem, tokenSerial: Int?) -> UInt64 {
        let entry = Entry(item: item, tokenSerial: tokenSerial)
        guard let slot = free.popLast() else {
            entries.append(entry)
            return UInt64(entries.count - 1)
        }
        entries[slot] = entry
        return UInt64(slot)
    }

    /// Removes a notification by its slot and returns it; nil for an unused slot.
    mutating func take(_ slot: UInt64) -> (item: ProviderItem, tokenSerial: Int?)? {
        guard let slot = Int(exactly: slot), entries.indices.contains(slot),
            let entry = entries[slot]
        else { return nil }
        entries[slot] = nil
        free.append(slot)
        return (entry.item, entry.tokenSerial)
    }

    /// Removes a notification that was not sent.
    mutating func remove(_ slot: UInt64) { _ = take(slot) }

    /// Removes all notifications and returns them.
    mutating func removeAll() -> [ProviderItem] {
        defer { self = InFlightRequests() }
        return entries.compactMap { $0?.item }
    }
}
