import APNsProtocol
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
    var reader = ReportLines(layout)
    var lines: [ReportLine] = []
    var content: [UInt8] = []
    var start = 0
    while start < bytes.count {
        let end = min(start + piece, bytes.count)
        try bytes[start..<end].withUnsafeBytes { piece in
            try reader.take(piece, content: { content += $0 }, { lines.append($0) })
        }
        start = end
    }
    try reader.finish { lines.append($0) }
    return (lines, content)
}

private func map(_ text: String) throws -> FieldMap { try FieldMap(text) }

@Suite("Reading the log of another sender")
struct ReportLinesTests {
    @Test("finds mapped fields in JSON lines, in pieces of any size", arguments: [2, 3, 16, 4_096])
    func jsonLines(_ piece: Int) throws {
        let text = """
            {"device":"\(hex)","timestamp":1700000000123,"status":410,"reason":"Unregistered"}

            {"reason":"ExpiredToken","status":"410","timestamp":"1700000000456","device":"<c9d4c07c fbbc26d6>"}
            """
        let layout = ReportLayout(
            format: .jsonl,
            map: try map("token=.device,time=.timestamp,status=.status,reason=.reason"))
        let lines = try read(text, layout, piece: piece)
        #expect(lines.map(\.record.line) == [1, 3])
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
        let layout = ReportLayout(
            format: .jsonl,
            map: try map(
                "token=.delivery.token,time=.delivery.providerResponse.timestamp,"
                    + "status=.delivery.statusCode,reason=.delivery.providerResponse.reason,"
                    + "sent=.tries[1].at"))
        let report = try #require(try read(line, layout)[0].report.get())
        #expect(report.reason == "Unregistered")
        #expect(report.timestamp == EpochMilliseconds(1_429_881_217_000))
        #expect(report.sentAt == EpochMilliseconds(2_000))
    }

    @Test(
        "passes a line on as unusable that it cannot read, and reads the next",
        arguments: [
            ("{\"device\":\"c9\"", "it is not one JSON value"),
            ("{\"device\":\"c9\"} trailing", "it is not one JSON value"),
            ("{\"device\":\"c9\",\"device\":\"c8\"}", "it has the key 'device' twice"),
            ("{\"device\":[1]}", "its token is not a text"),
            ("{\"device\":\"c9\",\"status\":41.5}", "its status is not a whole number"),
            ("{\"device\":\"c9\",\"t\":1.7e12}", "its time is not a whole number of milliseconds"),
        ])
    func unusable(_ line: String, _ cause: String) throws {
        let layout = ReportLayout(
            format: .jsonl, map: try map("token=.device,status=.status,time=.t"))
        let lines = try read(line + "\n{\"device\":\"c9\"}\n", layout)
        #expect(lines.count == 2)
        let refusal = #expect(throws: UnusableReport.self) { try lines[0].report.get() }
        #expect("\(try #require(refusal))".hasPrefix(cause))
        #expect(try lines[1].report.get()?.token == Array("c9".utf8))
    }

    @Test("takes a line without a token for another kind of line")
    func otherLines() throws {
        let layout = ReportLayout(format: .jsonl, map: try map("token=.device"))
        let lines = try read("{\"level\":\"info\"}\n{\"device\":null}\n", layout)
        #expect(try lines[0].report.get() == nil)
        #expect(try lines[1].report.get()?.token == [])
    }

    @Test("calls each token of a list without status and reason dead")
    func listOfTokens() throws {
        let layout = ReportLayout(
            format: .csv, map: try map("token=token,time=when"), unit: .iso)
        let lines = try read(
            "token;when\nc9d4;2024-05-01\nc9d5;2024-05-01 12:30:00+02:00\n", layout)
        #expect(lines.count == 2)
        let first = try #require(try lines[0].report.get())
        #expect(first.status == 410)
        #expect(first.timestamp == EpochMilliseconds(1_714_521_600_000))
        #expect(
            try lines[1].report.get()?.timestamp == EpochMilliseconds(1_714_559_400_000))
        // A log that tells answers apart must not turn a delivered line into a dead token.
        let log = ReportLayout(format: .csv, map: try map("token=token,reason=error"))
        #expect(try read("token,error\nc9d4,\n", log)[0].report.get()?.status == nil)
    }

    @Test("reads CSV with quotes, line breaks inside, a byte order mark and CRLF")
    func csv() throws {
        let text =
            "\u{FEFF}\"name\",token,time\r\n\"a \"\"b\"\"\nc\",c9d4,1700000000.5\r\n5\" x,c9d5,1700000001\r\n"
        let layout = ReportLayout(
            format: .csv, map: try map("token=token,time=time"), unit: .seconds)
        let lines = try read(text, layout)
        #expect(lines.map(\.record.line) == [2, 4])
        #expect(try lines[0].report.get()?.timestamp == EpochMilliseconds(1_700_000_000_500))
        #expect(try lines[1].report.get()?.token == Array("c9d5".utf8))
    }

    @Test(
        "a quote that is there by mistake puts lines in doubt up to where it shows, and no others",
        arguments: [
            "\"open,1700000000\n", "c8d0,\"1700000000\n", "\"a\nb,1700000000\n",
            "\"" + String(repeating: "x", count: 700) + "\n",
        ], [1, 300])
    func strayQuote(_ line: String, _ after: Int) throws {
        let layout = ReportLayout(
            format: .csv, map: try map("token=token,time=time"), unit: .seconds)
        let good = (0..<after).map { "c9d4,\(1_700_000_000 + $0)\n" }.joined()
        let shows = "c9d5,\"1700000001\"\n"
        for (tail, isEndless) in [("", true), (shows, false), (shows + good, false)] {
            for piece in [7, 65_536] {
                let lines = try read(
                    "token,time\nc9d3,1699999999\n" + line + good + tail, layout, piece: piece)
                let tokens = lines.compactMap { try? $0.report.get()?.token }
                // The line before the quote, and those after the line in which it shows.
                #expect(tokens.count == (tail == shows + good ? 1 + after : 1), "\(tail.count)")
                let breaks = (line + good + tail).count { $0 == "\n" }
                #expect(lines.count == 1 + breaks && lines.last?.record.line == 2 + breaks)
                let doubtful = lines.filter { $0.record.quote == 3 }
                #expect(doubtful.count == lines.count - tokens.count)
                #expect(doubtful.map(\.record.line) == Array(3..<3 + doubtful.count))
                if isEndless { #expect(lines.last?.record.quote == 3) }
            }
        }
    }

    @Test("an odd quote in one line spoils that line alone")
    func oddQuote() throws {
        let layout = ReportLayout(
            format: .csv, map: try map("token=token,time=time"), unit: .seconds)
        let lines = try read(
            "token,time\n\"c9d0\"x,1700000000\nc9d4,1700000000\n", layout)
        #expect(lines.count == 2)
        #expect(throws: UnusableReport.self) { try lines[0].report.get() }
        #expect(try lines[1].report.get()?.token == Array("c9d4".utf8))
    }

    @Test(
        "text of a field never becomes a report, however long it is and whatever is in it",
        arguments: [1, 150, 20_000])
    func injectedLine(_ lines: Int) throws {
        let layout = ReportLayout(
            format: .csv,
            map: try map(
                "alert=ignored,token=token,status=status".replacing(
                    "alert=ignored,", with: "")))
        let filler = String(repeating: String(repeating: "hello", count: 12) + "\n", count: lines)
        let text = filler + "\(hex),1700000000123,410,Unregistered\nbye"
        for end in ["\",200\n", "\",200\nc9d4,x,410\n", ""] {
            let found = try read(
                "token,alert,status\nc9d3,\"" + text + end, layout, piece: 65_536)
            for line in found {
                let report = try? line.report.get()
                #expect(
                    report?.token != Array(hex.utf8) && report?.status != 410
                        || report?.token == Array("c9d4".utf8))
            }
            if lines < 10_000, end.hasSuffix("410\n") {
                #expect(try found.last?.report.get()?.status == 410)
            }
        }
    }

    @Test("only the separator of the file separates fields", arguments: [";", "|", "\t"])
    func otherSeparators(_ other: String) throws {
        let layout = ReportLayout(format: .csv, map: try map("token=token,reason=reason"))
        let lines = try read(
            "token,reason,text\nc9d4,Unregistered,a\(other)\"b\nc9d5,Unregistered,c\"\(other)d\n",
            layout)
        #expect(
            try lines.map { try $0.report.get()?.token } == ["c9d4", "c9d5"].map { Array($0.utf8) })
    }

    @Test("counts columns by number in a CSV file without names")
    func numberedColumns() throws {
        let layout = ReportLayout(format: .csv, map: try map("token=2,time=1"))
        let lines = try read("1700000000000,c9d4\n1700000000001,c9d5\n", layout)
        #expect(lines.count == 2)
        #expect(try lines[0].report.get()?.token == Array("c9d4".utf8))
    }

    @Test("passes over a byte order mark, and refuses a map that cannot fit")
    func markAndMap() throws {
        let jsonl = ReportLayout(format: .jsonl, map: try map("token=.device"))
        let marked = try read("\u{FEFF}{\"device\":\"c9\"}\n", jsonl)
        #expect(try marked[0].report.get()?.token == Array("c9".utf8))
        let numbered = ReportLayout(format: .csv, map: try map("token=1"))
        #expect(try read("\u{FEFF}c9\n", numbered)[0].report.get()?.token == Array("c9".utf8))
        for (text, cause) in [
            ("token=1,time=when", "mixes"), ("token=token,status=st", "column st"),
        ] {
            let layout = ReportLayout(format: .csv, map: try map(text))
            let refusal = #expect(throws: FieldMapRefusal.self) {
                try read("token,status\nc9,410\n", layout)
            }
            #expect("\(try #require(refusal))".contains(cause))
        }
    }

    @Test("names the columns of a CSV file that lacks the mapped one")
    func missingColumn() throws {
        let layout = ReportLayout(format: .csv, map: try map("token=device"))
        let refusal = #expect(throws: FieldMapRefusal.self) { try read("id,token\n1,2\n", layout) }
        #expect("\(try #require(refusal))".contains("names id, token"))
    }

    @Test("cuts a record without end at 1 MiB and finds the records after it")
    func endlessLine() throws {
        let layout = ReportLayout(format: .jsonl, map: try map("token=.device"))
        let text = String(repeating: "x", count: 3 << 20) + "\n{\"device\":\"c9\"}\n"
        let lines = try read(text, layout, piece: 100_000)
        #expect(lines.count == 2)
        #expect(lines[0].record.bytes.count == 1 << 20 && lines[0].record.isCut)
        #expect(throws: UnusableReport.line("it is longer than 1 MiB")) {
            try lines[0].report.get()
        }
        #expect(lines[1].record.line == 2)
        // A quote that never closes takes no more than that either, and puts all lines in doubt.
        let csv = ReportLayout(format: .csv, map: try map("token=1"))
        let open = "\"" + String(repeating: "a\n", count: 1 << 20) + "c9d4\nc9d5\n"
        let last = try #require(try read(open, csv, piece: 65_536).last)
        #expect(last.record.bytes == Array("c9d5".utf8) && last.record.quote == 1)
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
        // gzip itself passes over zeros after a member, as tapes leave them.
        let zeros = [UInt8](repeating: 0, count: 513)
        let bytes = try gzip(texts[0]) + gzip(texts[1])
        let padded = try gzip(texts[0]) + zeros + gzip(texts[1]) + zeros
        let layout = ReportLayout(format: .jsonl, map: try FieldMap("token=.device"))
        for (bytes, piece) in [(bytes, 2), (bytes, 10), (padded, 10), (padded, 10_000)] {
            let (lines, content) = try read(bytes, layout, piece: piece)
            #expect(lines.count == 3)
            #expect(content == Array(texts.joined().utf8))
        }
    }

    @Test("refuses gzip that is damaged or ends too early")
    func damaged() throws {
        let whole = try gzip(String(repeating: "{\"device\":\"c9d4\"}\n", count: 1_000))
        let layout = ReportLayout(format: .jsonl, map: try FieldMap("token=.device"))
        #expect(throws: GunzipFailure.self) { try read(Array(whole.dropLast(9)), layout) }
        var broken = whole
        broken[20] ^= 0xFF
        #expect(throws: GunzipFailure.self) { try read(broken, layout) }
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
            ("token=", "empty key"),
        ])
    func refusals(_ text: String, _ cause: String) throws {
        let refusal = #expect(throws: FieldMapRefusal.self) { try FieldMap(text) }
        #expect("\(try #require(refusal))".contains(cause))
    }
}
