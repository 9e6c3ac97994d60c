import APNsProtocol
import EvidenceFiles
import Testing
import TokenHygiene

private let hex = String(repeating: "c9d4c07c", count: 8)

private func reading(
    _ line: String, _ map: String, _ format: ReportFormat = .jsonl
) throws -> Result<ReportReading, UnusableReport> {
    let judge = ReportReader(now: EpochMilliseconds(1_790_000_000_000), mayUseArrival: false)
    var reader = ReportLines(ReportLayout(format: format, map: try FieldMap(map)), judge)
    var found: [Result<ReportReading, UnusableReport>] = []
    let bytes = Array((line + "\n").utf8)
    try bytes.withUnsafeBytes { piece in
        try reader.take(piece, content: { _, _ in }, { found.append($0.reading) })
    }
    try reader.finish(content: { _, _ in }, { found.append($0.reading) })
    return try #require(found.last)
}

@Suite("What a line gives and nobody understands")
struct NotUnderstoodTests {
    private static let answer = #"{\"reason\":\"Unregistered\",\"timestamp\":1700000000123}"#

    @Test(
        "text in a field that begins a JSON object and does not end it is a damaged line",
        arguments: [
            (#"{\"reason\":\"Unregistered\",\"times"#, true), (#" {\"reason\":\"Unr"#, true),
            (#"{"#, true), (#"{\"x\":{\"y\":1}"#, true), (#"APNS: {\"reason\":\"Unre"#, true),
            (#"APNS: 410 - \#(answer)"#, false), (#"\#(answer) (attempt 1)"#, false),
            (#"connection {3}: \#(answer)"#, false),
        ])
    func nested(_ text: String, _ isCut: Bool) throws {
        let line = #"{"token":"\#(hex)","a":{"err":"\#(text)"}}"#
        let found = try reading(line, "token=.token,reason=.a.err.reason,time=.a.err.timestamp")
        #expect(found == .failure(.nested(path: ".a.err", isCut: isCut)))
    }

    @Test(
        "text of another kind says nothing",
        arguments: [
            "connection {3} opened", "{3} opened", "[worker] started", "{}", "",
            #"sent {\"id\":3} to it"#, "{ \\n }", "a { b",
        ])
    func other(_ text: String) throws {
        let map = "token=.message.token,reason=.message.reason,time=.message.time"
        #expect(try reading(#"{"message":"\#(text)"}"#, map) == .success(.nothing))
    }

    @Test("a column of CSV with JSON that was cut off is a damaged row")
    func column() throws {
        let text = "token,err\n\(hex),\"{\"\"reason\"\":\"\"Unr\"\n"
        let found = try reading(text, "token=token,reason=err.reason", .csv)
        #expect(found == .failure(.nested(path: "the column of err.reason", isCut: true)))
    }

    @Test(
        "a line of another platform is passed over, by its platform or by the form of its token",
        arguments: [
            ("android", hex, true), ("ios", hex, false), ("ipados", hex, false), ("iOS", hex, true),
            ("ios\u{301}", hex, true), ("", hex, false),
            ("ios", "dX9:APA91bHun4MxP5egoKMwt2KZF", true),
            ("ios", "ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]", true), ("ios", "APA91bHun", true),
            ("ios", "https://updates.push.services.mozilla.com/wpush/v2/gAAA", true),
        ])
    func platforms(_ platform: String, _ token: String, _ isOther: Bool) throws {
        let line = #"{"t":"\#(token)","p":"\#(platform)","r":"Unregistered","at":1700000000123}"#
        let map = "token=.t,platform=.p=ios|ipados,reason=.r,time=.at"
        guard case .success(let found) = try reading(line, map) else {
            Issue.record("\(platform) \(token)")
            return
        }
        #expect((found == .otherPlatform) == isOther, "\(found)")
        #expect(isOther || found != .nothing)
    }

    @Test("the values of Apple's platforms are a part of a map, and it has to name them")
    func platformMap() throws {
        let map = try FieldMap("platform=os=x=ios|tvos,token=t")
        #expect(map.text == "platform=os=x=ios|tvos,token=t")
        #expect(try FieldMap("token=t,platform=os=ios") != FieldMap("token=t,platform=os=ipados"))
        for text in ["token=t,platform=.os", "token=t,platform=.os=", "token=t,platform=.os=a||b"] {
            let refusal = #expect(throws: UnreadableFile.self) { try FieldMap(text) }
            #expect("\(try #require(refusal))".contains("platform=.platform=ios"))
        }
    }

    @Test("the command that takes JSON over several lines apart is the one that leads to reports")
    func spread() throws {
        let judge = ReportReader(now: EpochMilliseconds(1_790_000_000_000), mayUseArrival: false)
        func command(_ text: String, _ layout: ReportLayout) -> String? {
            var beginning = FileBeginning()
            beginning.take(Array(text.utf8))
            return beginning.jqCommand(for: layout, judge)
        }
        let inner =
            #"{\"delivery\":{\"token\":\"\#(hex)\",\"statusCode\":410,\"providerResponse\":"#
            + #"\"{\\\"reason\\\":\\\"Unregistered\\\",\\\"timestamp\\\":1700000000123}\"}}"#
        let events =
            "{\n  \"searched\": [],\n  \"events\": [\n    {\n      \"message\": \"\(inner)\"\n    }\n  ]\n}\n"
        #expect(command(events, ReportPreset.sns.layout) == "jq -r '.events[].message'")
        let own = #"{"device_token": "\#(hex)", "status": 410, "timestamp_ms": 1700000000123}"#
        #expect(command("[\n\(own),\n\(own)", ReportLayout(format: .jsonl)) == "jq -c '.[]'")
        #expect(
            command("{\"it's\": [\(own)]}", ReportLayout(format: .jsonl))?.contains("it") == true)
        #expect(command("{\n\"a\": [1, 2\n", ReportPreset.sns.layout) == nil)
        #expect(command("[[[[", ReportLayout(format: .jsonl)) == nil)
    }
}
