import APNsProtocol
import Encodings
import EvidenceFiles
import Foundation
import Testing
import TokenHygiene

private let hex = String(repeating: "c9d4c07c", count: 8)

/// Reads a text in pieces of some size, and returns the records with their reports.
private func read(
    _ text: String, _ layout: ReportLayout, piece: Int = 7
) throws -> [ReportLine] {
    try read(Array(text.utf8), layout, piece: piece).lines
}

private func read(
    _ bytes: [UInt8], _ layout: ReportLayout, piece: Int = 7
) throws -> (lines: [ReportLine], content: [UInt8]) {
    let judge = ReportReader(now: EpochMilliseconds(1_790_000_000_000), mayUseArrival: false)
    var reader = ReportLines(layout, judge)
    var lines: [ReportLine] = []
    var content: [UInt8] = []
    var start = 0
    while start < bytes.count {
        let end = min(start + piece, bytes.count)
        try bytes[start..<end].withUnsafeBytes { piece in
            try reader.take(piece, content: { bytes, _ in content += bytes }, { lines.append($0) })
        }
        start = end
    }
    try reader.finish(content: { bytes, _ in content += bytes }, { lines.append($0) })
    return (lines, content)
}

private func jsonl(_ map: String) throws -> ReportLayout {
    ReportLayout(format: .jsonl, map: try FieldMap(map))
}

private func csv(
    _ map: String, unit: ReportTimeUnit = .milliseconds
) throws -> ReportLayout {
    ReportLayout(format: .csv, map: try FieldMap(map), unit: unit)
}

@Suite("Reading the log of another sender")
struct ReportLinesTests {
    @Test("finds mapped fields in JSON lines, in pieces of any size", arguments: [2, 3, 16, 4_096])
    func jsonLines(_ piece: Int) throws {
        let text = """
            {"device":"\(hex)","timestamp":1700000000123,"status":410,"reason":"Unregistered"}

            {"reason":"ExpiredToken","status":"410","timestamp":"1700000000456","device":"<c9d4c07c fbbc26d6>"}
            """
        let layout = try jsonl("token=.device,time=.timestamp,status=.status,reason=.reason")
        let lines = try read(text, layout, piece: piece)
        #expect(lines.map(\.line) == [1, 3])
        let first = try #require(try lines[0].report.get())
        #expect(first.token == Array(hex.utf8))
        #expect(first.status == 410 && first.reason == "Unregistered")
        #expect(first.timestamp == EpochMilliseconds(1_700_000_000_123))
        let second = try #require(try lines[1].report.get())
        #expect(second.status == 410 && second.timestamp == EpochMilliseconds(1_700_000_000_456))
    }

    @Test("enters arrays, and strings that hold JSON")
    func nested() throws {
        let line = #"""
            {"delivery":{"token":"c9d4","statusCode":410,"providerResponse":"{\"reason\":\"Unregistered\",\"timestamp\":1429881217000}"},"tries":[{"at":1},{"at":2000}]}
            """#
        let layout = try jsonl(
            "token=.delivery.token,time=.delivery.providerResponse.timestamp,status=.delivery.statusCode,reason=.delivery.providerResponse.reason,sent=.tries[1].at"
        )
        let report = try #require(try read(line, layout)[0].report.get())
        #expect(report.reason == "Unregistered")
        #expect(report.timestamp == EpochMilliseconds(1_429_881_217_000))
        #expect(report.sentAt == EpochMilliseconds(2_000))
    }

    @Test(
        "passes a line on as unusable that it cannot read, and reads the next",
        arguments: [
            ("{\"device\":\"c9\"", "it begins a JSON object and is not one JSON value"),
            ("{\"device\":\"c9\"} trailing", "it begins a JSON object and is not one JSON value"),
            ("{\"device\" \"c9\"}", "it begins a JSON object and is not one JSON value"),
            ("{\"x\" 1,\"device\":\"c9\"}", "it begins a JSON object and is not one JSON value"),
            ("{\"device\":\"c9\",\"x\" 1}", "it begins a JSON object and is not one JSON value"),
            ("{\"device\":\"c9\"}{\"device\":\"c8\"}", "several JSON values stand in it"),
            ("2023-11-14T22:13:20Z {\"device\":\"c9\"}", "text stands before its JSON object"),
            ("{\"device\":\"c9\",\"device\":\"c8\"}", "it has the key 'device' twice"),
            ("{\"device\":[1]}", "its token is not a text"),
            ("{\"device\":\"c9\",\"status\":41.5}", "its status is not a whole number"),
            ("{\"device\":\"c9\",\"t\":1.7e12}", "its time is not a whole number of milliseconds"),
        ])
    func unusable(_ line: String, _ cause: String) throws {
        let layout = try jsonl("token=.device,status=.status,time=.t")
        let lines = try read(line + "\n{\"device\":\"c9\"}\n", layout)
        #expect(lines.count == 2)
        let refusal = #expect(throws: UnusableReport.self) { try lines[0].report.get() }
        #expect("\(try #require(refusal))".hasPrefix(cause))
        #expect(try lines[1].report.get()?.token == Array("c9".utf8))
    }

    @Test("takes a line without a token for another kind of line")
    func otherLines() throws {
        let layout = try jsonl("token=.device")
        let lines = try read("{\"level\":\"info\"}\n{\"device\":null}\n", layout)
        #expect(try lines[0].report.get() == nil)
        #expect(try lines[1].report.get()?.token == [])
    }

    @Test("calls each token of a list without status and reason dead")
    func listOfTokens() throws {
        let layout = try csv("token=token,time=when", unit: .iso)
        let lines = try read(
            "token;when\nc9d4;2024-05-01\nc9d5;2024-05-01 12:30:00+02:00\n", layout)
        #expect(lines.count == 2)
        let first = try #require(try lines[0].report.get())
        #expect(first.status == 410)
        #expect(first.timestamp == EpochMilliseconds(1_714_521_600_000))
        #expect(
            try lines[1].report.get()?.timestamp == EpochMilliseconds(1_714_559_400_000))
        // A log that tells answers apart must not turn a delivered line into a dead token.
        let log = try csv("token=token,reason=error")
        #expect(try read("token,error\nc9d4,\n", log)[0].report.get()?.status == nil)
    }

    @Test("reads CSV with quotes, line breaks inside, a byte order mark and CRLF")
    func quotedRows() throws {
        let text =
            "\u{FEFF}\"name\",token,time\r\n\"a \"\"b\"\"\nc\",c9d4,1700000000.5\r\n\"5\"\" x\",c9d5,1700000001\r\n"
        let layout = try csv("token=token,time=time", unit: .seconds)
        let lines = try read(text, layout)
        #expect(lines.map(\.line) == [2, 4])
        #expect(try lines[0].report.get()?.timestamp == EpochMilliseconds(1_700_000_000_500))
        #expect(try lines[1].report.get()?.token == Array("c9d5".utf8))
    }

    @Test("counts columns by number in a CSV file without names")
    func numberedColumns() throws {
        let layout = try csv("token=2,time=1")
        let lines = try read("1700000000000,c9d4\n1700000000001,c9d5\n", layout)
        #expect(lines.count == 2)
        #expect(try lines[0].report.get()?.token == Array("c9d4".utf8))
    }

    @Test("passes over a byte order mark, and refuses a map that cannot fit")
    func markAndMap() throws {
        let jsonl = try jsonl("token=.device")
        let marked = try read("\u{FEFF}{\"device\":\"c9\"}\n", jsonl)
        #expect(try marked[0].report.get()?.token == Array("c9".utf8))
        let numbered = try csv("token=1")
        #expect(try read("\u{FEFF}c9\n", numbered)[0].report.get()?.token == Array("c9".utf8))
        for (text, cause) in [
            ("token=1,time=when", "mixes"), ("token=token,status=st", "column st"),
            ("token=1,status=2,time=9", "names column 9 for time, and the first row has 2"),
        ] {
            let layout = try csv(text)
            let refusal = #expect(throws: UnreadableFile.self) {
                try read("token,status\nc9,410\n", layout)
            }
            #expect("\(try #require(refusal))".contains(cause))
        }
    }

    @Test("names the columns of a CSV file that lacks the mapped one")
    func missingColumn() throws {
        let layout = try csv("token=device")
        let refusal = #expect(throws: UnreadableFile.self) { try read("id,token\n1,2\n", layout) }
        #expect("\(try #require(refusal))".contains("names id, token"))
    }

    @Test(
        "refuses a column whose name is one of ours but for spaces and capitals",
        arguments: [" timestamp_ms", "TIMESTAMP_MS", "Timestamp_ms ", "\u{A0}timestamp_ms"])
    func nearName(_ name: String) throws {
        // Without its column the report would get the time of sending, which is later.
        let text = "device_token,status,\(name),sent_at\nc9,410,1,2\n"
        let refusal = #expect(throws: UnreadableFile.self) {
            try read(text, ReportLayout(format: .csv))
        }
        #expect("\(try #require(refusal))".contains("the column timestamp_ms with other capitals"))
        let mapped = try FieldMap("token=device_token,time=\(name)")
        guard name == name.trimmingCharacters(in: .whitespaces) else { return }
        #expect(try read(text, ReportLayout(format: .csv, map: mapped)).count == 1)
    }

    @Test("values of two strings that hold JSON do not take each other's place")
    func twoNested() throws {
        let reason = String(repeating: "r", count: hex.utf8.count)
        let line = #"{"a":"{\"x\":\"\#(hex)\"}","b":"{\"x\":\"\#(reason)\"}"}"#
        let layout = try jsonl("token=.a.x,reason=.b.x")
        let report = try #require(try read(line + "\n", layout)[0].report.get())
        #expect(report.token == Array(hex.utf8) && report.reason == reason)
    }

    @Test("passes lines on in their order with their numbers, however many cores read them")
    func order() throws {
        let (text, expected) = (0..<20_000).reduce(into: ("", [Int]())) { made, number in
            // Empty lines count, and say nothing.
            made.0 += number % 7 == 0 ? "\n" : "{\"device\":\"c9\",\"timestamp\":\(number)}\n"
            if number % 7 != 0 { made.1.append(number + 1) }
        }
        let lines = try read(text, try jsonl("token=.device,time=.timestamp"), piece: 1 << 20)
        #expect(lines.map(\.line) == expected)
        let times = try lines.map { try $0.report.get()?.timestamp?.rawValue }
        #expect(times == expected.map { Int64($0 - 1) })
    }

    @Test("cuts a line without end at 1 MiB and finds the lines after it")
    func endlessLine() throws {
        let layout = try jsonl("token=.device")
        let text = String(repeating: "x", count: 3 << 20) + "\n{\"device\":\"c9\"}\n"
        let lines = try read(text, layout, piece: 100_000)
        #expect(lines.count == 2)
        #expect(lines[0].bytes.count == 1 << 20)
        #expect(lines[0].reading == .failure(.line("it is longer than 1 MiB")))
        #expect(lines[1].line == 2)
    }

    @Test(
        "counts the elements of arrays that the path of the token does not enter",
        arguments: [
            ("token=.e[0].t,time=.at[0]", #"{"e":[{"t":"c9"},{"t":"c8"},{}],"at":[1,2]}"#, 2),
            ("token=.e[0].t", #"{"e":[]}"#, 0), ("token=.e[1].t", #"{"e":[{"t":"c9"}]}"#, 1),
            ("token=.m.e[0].t", #"{"m":"{\"e\":[{\"t\":\"c9\"},{},{}]}"}"#, 2),
            ("token=.t", #"[{"t":"c9"},{"t":"c8"}]"#, 2), ("token=.e.t", #"{"e":[{"t":"c9"}]}"#, 1),
            ("token=.t", #""[{\"t\":\"c9\"}]""#, 1), ("token=.e.t", #"{"e":{"t":"c9"}}"#, 0),
        ])
    func unread(_ paths: String, _ line: String, _ count: Int) throws {
        let layout = try jsonl(paths)
        #expect(try read(line + "\n", layout).map(\.unread) == [count])
    }

    @Test("counts such elements in a column that holds JSON too")
    func unreadInColumn() throws {
        let layout = try csv("token=m.e[0].t")
        let text = "m\n\"{\"\"e\"\":[{\"\"t\"\":\"\"c9\"\"},{},{}]}\"\n"
        #expect(try read(text, layout).map(\.unread) == [2])
    }

    @Test(
        "a file that goes over several lines, or is UTF-16, is named as such",
        arguments: [
            ("{\n  \"device\": \"c9\"\n}\n", "jq -c ."),
            ("[\n{\"device\":\"c9\"}\n]\n", "jq -c '.[]'"),
            ("\n{\n\"device\":\"c9\"}\n", "jq -c ."),
            ("{ \"events\": [\n{\"device\":\"c9\"}\n]}\n", "jq -c ."),
            ("{\"a\":\"}\\\"]\",\n\"device\":\"c9\"}\n", "jq -c ."),
        ])
    func otherForms(_ text: String, _ cure: String) throws {
        let layout = try jsonl("token=.device")
        let refusal = #expect(throws: UnreadableFile.self) { try read(text, layout) }
        #expect("\(try #require(refusal))".hasSuffix(cure))
        for encoding in [String.Encoding.utf16LittleEndian, .utf16BigEndian, .utf16] {
            let bytes = Array(try #require("{\"device\":\"c9\"}".data(using: encoding)))
            for format in ReportFormat.allCases {
                let layout = ReportLayout(format: format, map: try FieldMap("token=device"))
                #expect(throws: Refusal.self) { try read(bytes, layout, piece: 1) }
            }
        }
    }
}

@Suite("Reading compressed logs")
struct GunzipTests {
    /// The bytes that gzip makes of a text.
    private func gzip(_ text: String) throws -> [UInt8] {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/gzip")
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        input.fileHandleForWriting.write(Data(text.utf8))
        try input.fileHandleForWriting.close()
        let bytes = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Array(bytes)
    }

    @Test("expands gzip of several members as it is read, and gives the content")
    func members() throws {
        let texts = ["{\"device\":\"c9\"}\n", "{\"device\":\"c8\"}\n{\"device\":\"c7\"}"]
        let bytes = try gzip(texts[0]) + gzip(texts[1])
        let layout = try jsonl("token=.device")
        for piece in [2, 10, 10_000] {
            let (lines, content) = try read(bytes, layout, piece: piece)
            #expect(lines.count == 3)
            #expect(content == Array(texts.joined().utf8))
        }
    }

    @Test("refuses gzip that is damaged or ends too early")
    func damaged() throws {
        let whole = try gzip(String(repeating: "{\"device\":\"c9d4\"}\n", count: 1_000))
        let layout = try jsonl("token=.device")
        #expect(throws: UnreadableFile.self) { try read(Array(whole.dropLast(9)), layout) }
        var broken = whole
        broken[20] ^= 0xFF
        #expect(throws: UnreadableFile.self) { try read(broken, layout) }
    }
}

@Suite("The mapping of fields")
struct FieldMapTests {
    @Test(
        "refuses what it cannot mean, and says why",
        arguments: [
            ("", "is not FIELD=PATH"), ("tokn=.a", "is not FIELD=PATH"),
            ("time=.a", "has no token=PATH"), ("token=.a,token=.b", "given twice"),
            ("token=.a..b", "empty key"), ("token=.a[x]", "index that is no number"),
            ("token=", "empty key"), ("token=.a[\"b]", "a key in quotes"),
            ("token=.a[", "index that is no number"), ("token=.a.", "empty key"),
            ("token=" + String(repeating: ".a", count: 101), "more than 100 steps"),
        ])
    func refusals(_ text: String, _ cause: String) throws {
        let refusal = #expect(throws: UnreadableFile.self) { try FieldMap(text) }
        #expect("\(try #require(refusal))".contains(cause))
    }
}
