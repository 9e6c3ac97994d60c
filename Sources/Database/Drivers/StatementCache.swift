/// Prepared statements by their text; a new one replaces the least recently used one. The store
/// pads its IN lists to a few lengths, so a run of any length uses a few dozen texts.
struct StatementCache<Statement> {
    private var entries: [String: (statement: Statement, used: Int)] = [:]
    private var clock = 0
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    subscript(sql: String) -> Statement? {
        mutating get {
            guard let index = entries.index(forKey: sql) else { return nil }
            clock += 1
            entries.values[index].used = clock
            return entries.values[index].statement
        }
        set {
            clock += 1
            entries[sql] = newValue.map { ($0, clock) }
            if entries.count > capacity,
                let oldest = entries.min(by: { $0.value.used < $1.value.used })
            {
                entries[oldest.key] = nil
            }
        }
    }

    mutating func removeAll() { entries = [:] }
}
