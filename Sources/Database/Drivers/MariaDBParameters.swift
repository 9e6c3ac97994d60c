import CMariaDB

/// The values of a statement in the form from which libmariadb sends them: an array of binds that
/// point into one arena. The arena grows to the largest execution and is reused by the next.
final class MariaDBParameters {
    let count: Int
    /// The binds, which `mysql_stmt_bind_param` copies.
    let binds: UnsafeMutablePointer<MYSQL_BIND>
    private var arena: UnsafeMutableRawPointer
    private var capacity: Int

    init(count: Int) {
        self.count = count
        binds = .allocate(capacity: max(count, 1))
        binds.initialize(repeating: MYSQL_BIND(), count: max(count, 1))
        capacity = max(count, 1) * 40
        arena = .allocate(byteCount: capacity, alignment: 8)
    }

    deinit {
        binds.deallocate()
        arena.deallocate()
    }

    /// Writes the values into the arena; their number must equal the number of places.
    func fill(_ values: [SQLValue]) {
        let needed = values.reduce(0) { $0 + Self.room(for: $1) }
        if needed > capacity {
            arena.deallocate()
            capacity = max(needed, capacity * 2)
            arena = .allocate(byteCount: capacity, alignment: 8)
        }
        var offset = 0
        for (index, value) in values.enumerated() {
            write(value, at: arena + offset, into: &binds[index])
            offset += Self.room(for: value)
        }
    }

    /// Bytes of a value in the arena, rounded up so that the next one is aligned to 8.
    private static func room(for value: SQLValue) -> Int {
        switch value {
        case .null: 0
        case .integer, .unsigned, .real: 8
        case .wallClock: (MemoryLayout<MYSQL_TIME>.size + 7) & ~7
        case .text(let text): (text.utf8.count + 7) & ~7
        case .bytes(let bytes), .rawText(let bytes): (bytes.count + 7) & ~7
        }
    }

    private func write(
        _ value: SQLValue, at place: UnsafeMutableRawPointer, into bind: inout MYSQL_BIND
    ) {
        bind.buffer = place
        bind.is_unsigned = 0
        bind.length = nil
        switch value {
        case .null:
            bind.buffer_type = MYSQL_TYPE_NULL
            bind.buffer_length = 0
        case .integer(let number):
            bind.buffer_type = MYSQL_TYPE_LONGLONG
            place.storeBytes(of: number, as: Int64.self)
        case .unsigned(let number):
            bind.buffer_type = MYSQL_TYPE_LONGLONG
            bind.is_unsigned = 1
            place.storeBytes(of: number, as: UInt64.self)
        case .real(let number):
            bind.buffer_type = MYSQL_TYPE_DOUBLE
            place.storeBytes(of: number, as: Double.self)
        case .text(let exact):
            var text = exact.string
            bind.buffer_type = MYSQL_TYPE_STRING
            text.withUTF8 {
                if let base = $0.baseAddress { place.copyMemory(from: base, byteCount: $0.count) }
                bind.buffer_length = UInt($0.count)
            }
        case .bytes(let bytes), .rawText(let bytes):
            // BLOB, not STRING: a string would count as utf8mb4 text and be converted.
            if case .bytes = value {
                bind.buffer_type = MYSQL_TYPE_BLOB
            } else {
                bind.buffer_type = MYSQL_TYPE_STRING
            }
            bytes.withUnsafeBytes {
                if let base = $0.baseAddress { place.copyMemory(from: base, byteCount: $0.count) }
                bind.buffer_length = UInt($0.count)
            }
        case .wallClock(let clock):
            bind.buffer_type = MYSQL_TYPE_DATETIME
            place.storeBytes(of: MYSQL_TIME(clock), as: MYSQL_TIME.self)
            bind.buffer_length = UInt(MemoryLayout<MYSQL_TIME>.size)
        }
    }
}

extension MYSQL_TIME {
    /// A reading in the form of the binary protocol.
    init(_ clock: WallClock) {
        let fields = clock.fields
        self.init()
        year = UInt32(clamping: fields.year)
        month = UInt32(fields.month)
        day = UInt32(fields.day)
        hour = UInt32(fields.hour)
        minute = UInt32(fields.minute)
        second = UInt32(fields.second)
        second_part = UInt(fields.microsecond)
        time_type = MYSQL_TIMESTAMP_DATETIME
    }

    /// A date that does not exist, as the server prints and accepts it: `2024-00-00
    /// 11:22:33.000000`, or the bare zero date.
    var impossibleDate: String {
        func digits(_ number: some BinaryInteger, _ width: Int) -> String {
            let text = String(number)
            return String(repeating: "0", count: max(0, width - text.count)) + text
        }
        let isZero = [year, month, day, hour, minute, second].allSatisfy { $0 == 0 }
        if isZero && second_part == 0 { return "0000-00-00 00:00:00" }
        return "\(digits(year, 4))-\(digits(month, 2))-\(digits(day, 2)) \(digits(hour, 2)):"
            + "\(digits(minute, 2)):\(digits(second, 2)).\(digits(second_part, 6))"
    }

    /// The reading, or nil for a date that does not exist (MySQL stores zero dates).
    var wallClock: WallClock? {
        WallClock(
            year: Int(year), month: Int(month), day: Int(day), hour: Int(hour),
            minute: Int(minute), second: Int(second), microsecond: Int(second_part))
    }
}
