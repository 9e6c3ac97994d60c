import APNsProtocol
import EvidenceFiles
import Testing
import TokenHygiene

private let hex = String(repeating: "c9d4c07c", count: 8)
private let now = EpochMilliseconds(1_790_000_000_000)

/// A file as a program writes it, and the options that read it.
private struct Sample: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let text: String
    let options: String
    var layout = ReportLayout(format: .jsonl)

    static let all = [
        Sample(
            testDescription: "the error log of gorush",
            text: #"{"level":"error","msg":"{\"token\":\"\#(hex)\",\"error\":\"Unregistered\"}","#
                + #""time":"2023-11-14T22:13:20Z"}"#, options: "--from gorush"),
        Sample(
            testDescription: "a delivery log of SNS",
            text: #"{"delivery":{"token":"\#(hex)","statusCode":410,"providerResponse":"#
                + #""{\"reason\":\"Unregistered\",\"timestamp\":1700000000123}"}}"#,
            options: "--from sns"),
        Sample(
            testDescription: "rows of rpush",
            text: "device_token\terror_code\terror_description\tcreated_at\n"
                + "\(hex)\t410\tUnregistered\t2023-11-14 22:13:20.123456\n",
            options: "--from rpush"),
        Sample(
            testDescription: "rows of rpush, read by a map",
            text: "device_token\terror_code\terror_description\tcreated_at\n"
                + "\(hex)\t410\tUnregistered\t2023-11-14 22:13:20.123456\n",
            options: "--from rpush, without --map",
            layout: ReportLayout(format: .csv, map: (try? FieldMap("token=device")) ?? .standard)),
        Sample(
            testDescription: "lines of our own form, read as gorush",
            text: #"{"device_token":"\#(hex)","status":410,"timestamp_ms":1700000000000}"#,
            options: "--from jsonl", layout: ReportPreset.gorush.layout),
        Sample(
            testDescription: "lines of our own form in seconds, read as SNS",
            text: #"{"device_token":"\#(hex)","status":410,"timestamp_ms":1700000000}"#,
            options: "--from jsonl --time-unit s", layout: ReportPreset.sns.layout),
        Sample(
            testDescription: "lines of our own form, read as CSV",
            text: #"{"device_token":"\#(hex)","status":410,"timestamp_ms":1700000000000}"#,
            options: "--from jsonl", layout: ReportLayout(format: .csv)),
        Sample(
            testDescription: "times in seconds",
            text: #"{"device_token":"\#(hex)","status":410,"timestamp_ms":1700000000}"#,
            options: "--time-unit s"),
        Sample(
            testDescription: "times as text",
            text: #"{"device_token":"\#(hex)","status":410,"timestamp_ms":"2023-11-14 22:13:20"}"#,
            options: "--time-unit iso"),
        Sample(
            testDescription: "CSV with times as text",
            text: "device_token,status,timestamp_ms\n\(hex),410,2023-11-14T22:13:20Z\n",
            options: "--from csv --time-unit iso"),
    ]
}

@Suite("Files of a known form")
struct ReportPresetTests {
    private func options(
        _ text: String, _ layout: ReportLayout, isEnded: Bool = true
    ) -> String? {
        var beginning = FileBeginning()
        Array(text.utf8).withUnsafeBytes { beginning.take($0) }
        return beginning.layout(
            inPlaceOf: layout, isEnded: isEnded, ReportReader(now: now, mayUseArrival: false)
        )?.options(inPlaceOf: layout)
    }

    @Test("the options that read a file are found by reading it", arguments: Sample.all)
    fileprivate func found(_ sample: Sample) {
        #expect(options(sample.text, sample.layout) == sample.options)
    }

    @Test("no options are named for a file that no form reads, or that calls no token dead")
    func none() {
        let layout = ReportLayout(format: .jsonl)
        for text in [
            "", "\n\n", "not a log\n",
            #"{"device_token":"zz","status":410,"timestamp_ms":1700000000}"#,
            #"{"delivery":{"token":"\#(hex)","statusCode":200}}"#, "\u{1F}\u{0}\u{FFFD}",
        ] {
            #expect(options(text, layout) == nil, "\(text)")
        }
        // What is read right needs no other options.
        let right = #"{"device_token":"\#(hex)","status":410,"timestamp_ms":1700000000000}"#
        #expect(options(right, layout) == nil)
    }

    @Test("lines that say nothing do not hide the few of which one calls a token dead")
    func few() {
        let line = #"{"device_token":"\#(hex)","status":200,"timestamp_ms":1700000000}"# + "\n"
        let text = String(repeating: line, count: 300) + line.replacing("200", with: "410")
        #expect(options(text, ReportLayout(format: .jsonl)) == "--time-unit s")
    }

    @Test("the options of a layout choose it, and a preset needs no map")
    func words() throws {
        let map = try FieldMap("token=.a b,status=.s")
        for (layout, options) in [
            (ReportLayout(format: .csv), "--from csv"), (ReportPreset.sns.layout, "--from sns"),
            (ReportPreset.quarantine.layout, "--from jsonl"),
            (
                ReportLayout(format: .jsonl, map: map, unit: .iso),
                "--from jsonl --map status=.s,token=.a b --time-unit iso"
            ),
        ] {
            #expect(layout.options.joined(separator: " ") == options)
        }
    }

    @Test("a line that is cut off at the end of what is kept is not judged")
    func cut() {
        let line = #"{"device_token":"\#(hex)","status":410,"timestamp_ms":1700000000}"# + "\n"
        let text = String(repeating: line, count: 12_000)
        #expect(options(text, ReportLayout(format: .jsonl), isEnded: false) == "--time-unit s")
    }
}
