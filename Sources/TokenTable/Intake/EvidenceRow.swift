import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// One row of `pushsweep_evidence`.
package struct EvidenceRow: Hashable, Sendable {
    /// Its number.
    package let id: Int64
    /// The app and environment as the row names them.
    package let partition: Partition
    /// The report, or why the row is none.
    package let report: Result<ReportedAnswer, UnusableReport>
    /// The columns as one JSON object, for the quarantine. `pushsweep import` reads it as it is, so
    /// a corrected row can come back.
    package let line: String
}

extension EvidenceRow {
    /// Reads a row of the nine columns in the order of the query.
    init(_ values: ArraySlice<SQLValue>, _ dialect: SQLDialect) {
        let values = Array(values)
        id = values[0].integer ?? 0
        partition = Partition(app: values[1].shown, environment: values[2].shown)
        line = Self.json(values, dialect)
        do throws(UnusableReport) {
            report = .success(try Self.report(values, dialect))
        } catch {
            report = .failure(error)
        }
    }

    /// Times are milliseconds, as an import takes them by default. Bytes that are no text are hex,
    /// which is a spelling of a token.
    private static func json(_ values: [SQLValue], _ dialect: SQLDialect) -> String {
        let names = [
            "app", "environment", "device_token", "status", "reason", "timestamp_ms", "sent_at",
            "created_at",
        ]
        var json: [UInt8] = []
        for (name, value) in zip(names, values.dropFirst()) {
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

    private static func report(
        _ values: [SQLValue], _ dialect: SQLDialect
    ) throws(UnusableReport) -> ReportedAnswer {
        let token: [UInt8]
        switch values[3] {
        case .text(let text): token = Array(text.utf8)
        case .bytes(let bytes), .rawText(let bytes): token = bytes
        default: throw .field("device_token", expected: "a text")
        }
        var report = ReportedAnswer(token: token)
        guard let status = values[4].count else {
            throw .field("status", expected: "a whole number")
        }
        report.status = status
        if values[5] != .null {
            guard let reason = values[5].text else { throw .field("reason", expected: "a text") }
            report.reason = reason
        }
        if values[6] != .null {
            guard let time = values[6].count else {
                throw .field("timestamp_ms", expected: "a whole number of milliseconds")
            }
            report.timestamp = EpochMilliseconds(Int64(time))
        }
        report.sentAt = try time(values[7], "sent_at", dialect)
        report.receivedAt = try time(values[8], "created_at", dialect)
        return report
    }

    private static func time(
        _ value: SQLValue, _ name: String, _ dialect: SQLDialect
    ) throws(UnusableReport) -> EpochMilliseconds? {
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
        case .text(let text): text
        case .bytes(let bytes), .rawText(let bytes):
            String(validating: bytes, as: UTF8.self) ?? Hex.text(bytes)
        case .wallClock(let clock): clock.text(fraction: 3)
        }
    }
}
