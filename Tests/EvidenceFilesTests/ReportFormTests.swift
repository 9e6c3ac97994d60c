import APNsProtocol
import EvidenceFiles
import Foundation
import Testing
import TokenHygiene

// The forms in which other senders and their tools write what APNs answered, as people reported them.

private func token(_ letter: Character) -> String {
    "\(letter)1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90"
}

private let (a, b) = (token("a"), token("b"))
private let (c, d) = (token("c"), token("d"))

/// What an import of a file has to say.
private enum Verdict: Sendable {
    /// These tokens are dead, all at this time, milliseconds since 1970; so many lines are quarantined.
    case dead([String], at: Int64, quarantined: Int = 0, unread: Int = 0)
    /// Nothing of the file counts: exit 65, with a message that has this text.
    case unreadable(String)
    /// The mapping does not fit: exit 64, with a message that has this text.
    case wrongMap(String)
}

private struct Form: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let format: ReportFormat
    let map: String
    let unit: ReportTimeUnit
    let text: String
    let verdict: Verdict

    init(
        _ name: String, _ format: ReportFormat, _ map: String, unit: ReportTimeUnit = .milliseconds,
        _ text: String, _ verdict: Verdict
    ) {
        (testDescription, self.format, self.map) = (name, format, map)
        (self.unit, self.text, self.verdict) = (unit, text, verdict)
    }

    private static let standard =
        "token=device_token,time=timestamp_ms,sent=sent_at,status=status,reason=reason"
    private static let cloudWatch =
        "token=.logEvents[0].message.delivery.token,"
        + "time=.logEvents[0].message.delivery.providerResponse.timestamp,"
        + "status=.logEvents[0].message.delivery.statusCode"
    private static let delivery =
        "token=.delivery.token,time=.delivery.providerResponse.timestamp"
    private static let answer = #""{""reason"":""Unregistered"",""timestamp"":1700000000123}""#

    static let all: [Form] = [
        Form(
            "a row of another width", .csv, "token=token,reason=reason,time=time",
            "token,message,reason,time\n\(a),hi there,Unregistered\n\(b),Unregistered\n",
            .unreadable("line 2, column 1: this row has 3 fields, and 4 are expected")),
        Form(
            "one empty field more at the end of each row", .csv,
            "token=token,reason=reason,time=time",
            "token,message,reason,time\n\(a),x,Unregistered,1700000000123,\n",
            .dead([a], at: 1_700_000_000_123)),
        Form(
            "the same with the line of names included", .csv, "token=token,reason=reason,time=time",
            "token,reason,time,\n\(a),Unregistered,1700000000123,\n",
            .dead([a], at: 1_700_000_000_123)),
        Form(
            "one empty field more in some rows", .csv, "token=token,time=time",
            "token,time\n\(a),1700000000123,\n\(b),1700000000123\n",
            .unreadable("line 3, column 1")),
        Form(
            "an unmapped name twice", .csv, "token=token,time=dead,status=status", unit: .iso,
            "token,note,status,dead,note\n\(a),x,410,2023-11-14T22:13:20Z,y\n",
            .dead([a], at: 1_700_000_000_000)),
        Form(
            "a mapped name twice", .csv, "token=token,time=time",
            "token,time,time\n\(a),1700000000123,1600000000123\n",
            .wrongMap("names the column time twice")),
        Form(
            "a key twice", .jsonl, "token=.token,time=.created_at,status=.status", unit: .iso,
            #"{"token":"\#(a)","created_at":"2026-06-01T00:00:00Z","status":410,"#
                + #""created_at":"2023-11-14T22:13:20Z"}"# + "\n", .dead([], at: 0, quarantined: 1)),
        Form(
            "a column with dots, and the way into its JSON", .csv,
            "token=delivery.token,status=delivery.statusCode,"
                + "time=delivery.providerResponse.timestamp",
            "@timestamp,delivery.token,delivery.statusCode,delivery.providerResponse\n"
                + "2023-11-14 22:13:20.000,\(a),410,\(answer)\n", .dead([a], at: 1_700_000_000_123)),
        Form(
            "a column with dots, by the time of sending", .csv,
            "token=delivery.token,sent=@timestamp", unit: .iso,
            "@timestamp,delivery.token,delivery.statusCode,delivery.providerResponse\n"
                + "2023-11-14 22:13:20.000,\(a),410,\(answer)\n", .dead([a], at: 1_700_000_000_000)),
        Form(
            "keys with dots, whole and in quotes", .jsonl,
            #"token=.delivery.token,time=.log["sent.at"].ms"#,
            #"{"delivery.token":"\#(a)","delivery":{"token":"\#(b)"},"log":{"sent.at":{"ms":"#
                + "1700000000123}}}\n", .dead([a], at: 1_700_000_000_123)),
        Form(
            "ISO 8601 with short zones and a comma", .csv, "token=token,time=dead", unit: .iso,
            """
            token;dead
            \(a);2023-11-14T22:13:20+00
            \(b);2023-11-14T22:13:20,000Z
            \(c);2023-11-14T22:13:20+0000
            \(d);2023-11-14 22:13:20 UTC

            """, .dead([a, b, c, d], at: 1_700_000_000_000)),
        Form(
            "a comma before the fraction", .csv, "token=token,time=dead", unit: .iso,
            "token;dead\n\(a);2023-11-14T22:13:20,123Z\n", .dead([a], at: 1_700_000_000_123)),
        Form(
            "a zone of hours alone", .csv, "token=token,time=dead", unit: .iso,
            "token;dead\n\(a);2020-12-31 21:25:58.745232+02\n", .dead([a], at: 1_609_442_758_745)),
        Form(
            "a time before each object", .jsonl, delivery,
            #"2023-11-14T22:13:20.000Z {"delivery":{"token":"\#(a)","statusCode":410}}"# + "\n",
            .dead([], at: 0, quarantined: 1)),
        Form(
            "two events in one array", .jsonl, cloudWatch,
            #"{"logEvents":[{"message":"{\"delivery\":{\"token\":\"\#(a)\",\"statusCode\":410,"#
                + #"\"providerResponse\":\"{\\\"timestamp\\\":1700000000123}\"}}"},{"message":"{}"}]}"#
                + "\n", .dead([a], at: 1_700_000_000_123, unread: 1)),
        Form(
            "whole numbers with a fraction of zeros", .csv,
            "token=token,time=timestamp_ms,status=status,reason=reason",
            "token,timestamp_ms,status,reason\n\(a),1700000000123.0,410.0,Unregistered\n\(b),,,\n",
            .dead([a], at: 1_700_000_000_123)),
    ]
}

@Suite("The forms of other senders")
struct ReportFormTests {
    @Test("each form is read, or refused for what it is", arguments: Form.all)
    fileprivate func forms(_ form: Form) throws {
        let layout = ReportLayout(
            format: form.format, map: try FieldMap(form.map), unit: form.unit)
        switch form.verdict {
        case .dead(let tokens, let time, let quarantined, let unread):
            let found = try Self.read(form.text, layout)
            #expect(found.dead == tokens.map { "\($0) \(time)" })
            #expect(found.quarantined == quarantined)
            #expect(found.unread == unread)
        case .unreadable(let words):
            let fault = #expect(throws: UnreadableFile.self) { try Self.read(form.text, layout) }
            #expect("\(try #require(fault))".contains(words), "\(fault as Any)")
        case .wrongMap(let words):
            let refusal = #expect(throws: UnreadableFile.self) { try Self.read(form.text, layout) }
            #expect("\(try #require(refusal))".contains(words))
        }
    }

    private static func read(
        _ text: String, _ layout: ReportLayout
    ) throws -> (dead: [String], quarantined: Int, unread: Int) {
        let judge = ReportReader(now: EpochMilliseconds(1_790_000_000_000), mayUseArrival: false)
        var found: (dead: [String], quarantined: Int, unread: Int) = ([], 0, 0)
        var reader = ReportLines(layout, judge)
        let add = { (line: ReportLine) in
            found.unread += line.unread
            switch line.reading {
            case .success(.evidence(let token, _, let time)):
                found.dead.append("\(token.hex) \(time.rawValue)")
            case .success: break
            case .failure: found.quarantined += 1
            }
        }
        try Array(text.utf8).withUnsafeBytes { try reader.take($0, content: { _, _ in }, add) }
        try reader.finish(content: { _, _ in }, add)
        return found
    }
}
