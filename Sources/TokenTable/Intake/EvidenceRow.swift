import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// One row of `pushsweep_evidence`.
package struct EvidenceRow: Hashable, Sendable {
    /// The names of the columns, in the order of the query.
    static let columns = [
        "id", "app", "environment", "device_token", "status", "reason", "timestamp_ms", "sent_at",
        "created_at",
    ]

    private let values: ArraySlice<SQLValue>
    private let dialect: SQLDialect

    /// Takes the values of a row, in the order of the columns.
    init(_ values: ArraySlice<SQLValue>, _ dialect: SQLDialect) {
        self.values = values
        self.dialect = dialect
    }

    private subscript(column: Int) -> SQLValue { values[values.startIndex + column] }

    /// Its number.
    package var id: Int64 { self[0].integer ?? 0 }

    /// The app and environment as the row names them.
    package var words: Partition {
        Partition(app: self[1].shown, environment: self[2].shown)
    }

    /// When it came, by the clock of the session that inserted it; nil where that cannot be read.
    package var arrived: EpochMilliseconds? { dialect.ownTime("created_at").mark(self[8]) }

    /// When its sender heard it, as it says so and before it came; nil where neither can be read.
    package var heard: EpochMilliseconds? {
        guard let arrived else { return nil }
        return ((try? time(7)) ?? nil).map { min($0, arrived) } ?? arrived
    }

    /// Its token; nil where it spells none.
    package var token: DeviceToken? { self[3].spelledToken }

    /// The columns as one JSON object, for the quarantine. `pushsweep import` reads it as it is, so
    /// a corrected row can come back. Times are milliseconds, as an import takes them by default. Bytes
    /// that are no text are hex, which is a spelling of a token.
    package var line: String {
        var json: [UInt8] = []
        for (name, value) in zip(Self.columns, values).dropFirst() {
            json.append(UInt8(ascii: json.isEmpty ? "{" : ","))
            JSONText.append(name, to: &json)
            json.append(UInt8(ascii: ":"))
            let isTime = name.hasSuffix("_at")
            if isTime, let time = dialect.ownTime(name).mark(value) {
                json.append(contentsOf: "\(time.rawValue)".utf8)
            } else if value == .null {
                json.append(contentsOf: "null".utf8)
            } else if let number = value.integer {
                json.append(contentsOf: "\(number)".utf8)
            } else {
                JSONText.append(value.shown, to: &json)
            }
        }
        json.append(UInt8(ascii: "}"))
        return String(decoding: json, as: UTF8.self)
    }

    /// The report, or why the row is none.
    package var report: Result<ReportedAnswer, UnusableReport> {
        Result { () throws(UnusableReport) in try answer() }
    }

    private func answer() throws(UnusableReport) -> ReportedAnswer {
        let token: [UInt8]
        switch self[3] {
        case .text(let text): token = Array(text.utf8)
        case .bytes(let bytes), .rawText(let bytes): token = bytes
        default: throw .field("device_token", expected: "a text")
        }
        var report = ReportedAnswer(token: token)
        guard let status = self[4].count else {
            throw .field("status", expected: "a whole number")
        }
        report.status = status
        if self[5] != .null {
            guard let reason = self[5].text else { throw .field("reason", expected: "a text") }
            report.reason = reason
        }
        if self[6] != .null {
            guard let time = self[6].count else {
                throw .field("timestamp_ms", expected: "a whole number of milliseconds")
            }
            report.timestamp = EpochMilliseconds(Int64(time))
        }
        report.sentAt = try time(7)
        report.receivedAt = try time(8)
        return report
    }

    private func time(_ column: Int) throws(UnusableReport) -> EpochMilliseconds? {
        let (value, name) = (self[column], Self.columns[column])
        if value == .null { return nil }
        if let time = dialect.ownTime(name).mark(value) { return time }
        guard let text = value.text, let time = EpochMilliseconds(iso8601: text) else {
            throw .field(name, expected: "a time in UTC")
        }
        return time
    }
}

extension SQLValue {
    /// The value in a line of text.
    fileprivate var shown: String {
        switch self {
        case .null: ""
        case .integer(let number): "\(number)"
        case .unsigned(let number): "\(number)"
        case .real(let number): "\(number)"
        case .text(let text): text.string
        case .bytes(let bytes), .rawText(let bytes):
            String(validating: bytes, as: UTF8.self) ?? Hex.text(bytes)
        case .wallClock(let clock): clock.text(fraction: 3)
        }
    }
}

extension SQLValue {
    /// The token that a report spells; nil for any other value.
    var spelledToken: DeviceToken? {
        switch self {
        case .text(let text): try? DeviceToken(spelling: text.string)
        case .bytes(let bytes), .rawText(let bytes): try? DeviceToken(spelling: bytes)
        default: nil
        }
    }
}
