import CMariaDB

/// The columns of a result in the form into which libmariadb fetches them. Variable-length columns
/// get a slot of bounded size; a longer value, which is rare, is fetched again separately.
final class MariaDBColumns {
    private enum Form: Equatable {
        case integer(isUnsigned: Bool)
        case real
        case wallClock
        case text
        case bytes
    }

    /// Bytes of the slot for a variable-length value: tokens, keys and names fit.
    private static let slot = 512

    let count: Int
    /// The names of the columns, in order.
    let names: [String]
    /// The binds, which `mysql_stmt_bind_result` copies.
    let binds: UnsafeMutablePointer<MYSQL_BIND>
    private let forms: [Form]
    private let memory: UnsafeMutableRawPointer
    private let lengths: UnsafeMutablePointer<UInt>
    private let nulls: UnsafeMutablePointer<my_bool>

    init(_ fields: UnsafeBufferPointer<MYSQL_FIELD>) {
        count = fields.count
        names = fields.map { $0.name.map { String(cString: $0) } ?? "" }
        forms = fields.map(Self.form)
        binds = .allocate(capacity: count)
        binds.initialize(repeating: MYSQL_BIND(), count: count)
        lengths = .allocate(capacity: count)
        lengths.initialize(repeating: 0, count: count)
        nulls = .allocate(capacity: count)
        nulls.initialize(repeating: 0, count: count)
        memory = .allocate(byteCount: count * Self.slot, alignment: 8)
        for column in 0..<count {
            binds[column].buffer = memory + column * Self.slot
            binds[column].buffer_length = UInt(Self.slot)
            binds[column].length = lengths + column
            binds[column].is_null = nulls + column
            switch forms[column] {
            case .integer(let isUnsigned):
                binds[column].buffer_type = MYSQL_TYPE_LONGLONG
                binds[column].is_unsigned = isUnsigned ? 1 : 0
            case .real: binds[column].buffer_type = MYSQL_TYPE_DOUBLE
            case .wallClock: binds[column].buffer_type = MYSQL_TYPE_DATETIME
            case .text: binds[column].buffer_type = MYSQL_TYPE_STRING
            case .bytes: binds[column].buffer_type = MYSQL_TYPE_BLOB
            }
        }
    }

    deinit {
        binds.deallocate()
        lengths.deallocate()
        nulls.deallocate()
        memory.deallocate()
    }

    /// Whether a result with these columns can be fetched into this memory.
    func fit(_ fields: UnsafeBufferPointer<MYSQL_FIELD>) -> Bool {
        count == fields.count
            && zip(forms, fields).allSatisfy { form, field in form == Self.form(field) }
    }

    private static func form(_ field: MYSQL_FIELD) -> Form {
        switch field.type {
        case MYSQL_TYPE_TINY, MYSQL_TYPE_SHORT, MYSQL_TYPE_INT24, MYSQL_TYPE_LONG,
            MYSQL_TYPE_LONGLONG, MYSQL_TYPE_YEAR:
            .integer(isUnsigned: field.flags & UInt32(UNSIGNED_FLAG) != 0)
        case MYSQL_TYPE_FLOAT, MYSQL_TYPE_DOUBLE: .real
        case MYSQL_TYPE_DATETIME, MYSQL_TYPE_TIMESTAMP: .wallClock
        // These have the binary character set although their values are text.
        case MYSQL_TYPE_DECIMAL, MYSQL_TYPE_NEWDECIMAL, MYSQL_TYPE_DATE, MYSQL_TYPE_NEWDATE,
            MYSQL_TYPE_TIME, MYSQL_TYPE_JSON:
            .text
        default: field.charsetnr == binaryCharacterSet ? .bytes : .text
        }
    }

    /// The number of the character set `binary`.
    private static let binaryCharacterSet: UInt32 = 63

    /// The value of a column in the row fetched last.
    func value(
        _ column: Int, of statement: UnsafeMutablePointer<MYSQL_STMT>
    ) throws(SQLFailure) -> SQLValue {
        if nulls[column] != 0 { return .null }
        let place = memory + column * Self.slot
        switch forms[column] {
        case .integer(let isUnsigned):
            let number = place.load(as: Int64.self)
            guard isUnsigned && number < 0 else { return .integer(number) }
            return .unsigned(UInt64(bitPattern: number))
        case .real: return .real(place.load(as: Double.self))
        case .wallClock:
            let time = place.load(as: MYSQL_TIME.self)
            return time.wallClock.map(SQLValue.wallClock) ?? .text(time.impossibleDate)
        case .text:
            let bytes = try content(column, of: statement)
            return String(validating: bytes, as: UTF8.self).map(SQLValue.text) ?? .rawText(bytes)
        case .bytes: return .bytes(try content(column, of: statement))
        }
    }

    private func content(
        _ column: Int, of statement: UnsafeMutablePointer<MYSQL_STMT>
    ) throws(SQLFailure) -> [UInt8] {
        let length = Int(lengths[column])
        if length <= Self.slot {
            return Array(UnsafeRawBufferPointer(start: memory + column * Self.slot, count: length))
        }
        let content = Array<UInt8>(unsafeUninitializedCapacity: length) { buffer, count in
            var bind = binds[column]
            var received: UInt = 0
            bind.buffer = UnsafeMutableRawPointer(buffer.baseAddress)
            bind.buffer_length = UInt(length)
            let failed = withUnsafeMutablePointer(to: &received) {
                bind.length = $0
                return mysql_stmt_fetch_column(statement, &bind, UInt32(column), 0) != 0
            }
            count = failed ? 0 : length
        }
        guard content.count == length else {
            throw SQLFailure(
                kind: .other, code: 2052, message: "a long column value could not be fetched")
        }
        return content
    }
}
