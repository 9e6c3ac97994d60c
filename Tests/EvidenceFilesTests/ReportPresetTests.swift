import APNsProtocol
import EvidenceFiles
import Testing
import TokenHygiene

private let hex = String(repeating: "c9d4c07c", count: 8)
private let now = EpochMilliseconds(1_790_000_000_000)

private let alone = ", without --map"

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
                + #""time":"2023-11-14T22:13:20Z"}"#, options: "--from gorush" + alone),
        Sample(
            testDescription: "a delivery log of SNS",
            text: #"{"delivery":{"token":"\#(hex)","statusCode":410,"providerResponse":"#
                + #""{\"reason\":\"Unregistered\",\"timestamp\":1700000000123}"}}"#,
            options: "--from sns" + alone),
        Sample(
            testDescription: "rows of rpush",
            text: "device_token\terror_code\terror_description\tcreated_at\n"
                + "\(hex)\t410\tUnregistered\t2023-11-14 22:13:20.123456\n",
            options: "--from rpush" + alone),
        Sample(
            testDescription: "an exported row of the quarantine, read as CSV",
            text: #"{"device_token":"\#(hex)","status":410,"timestamp_ms":1700000000000}"#,
            options: "--from quarantine" + alone, layout: ReportLayout(format: .csv)),
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
        return beginning.options(
            inPlaceOf: layout, isEnded: isEnded, ReportReader(now: now, mayUseArrival: false))
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

    @Test("a line that is cut off at the end of what is kept is not judged")
    func cut() {
        let line = #"{"device_token":"\#(hex)","status":410,"timestamp_ms":1700000000}"# + "\n"
        let text = String(repeating: line, count: 3_000)
        #expect(options(text, ReportLayout(format: .jsonl), isEnded: false) == "--time-unit s")
    }
}
