// The text format that Prometheus reads (Prometheus documentation, "Exposition formats", text-based
// format 0.0.4), as far as gauges need it. The code is pure: RunMetrics decides the content of a
// page, and ReplacedFile writes it to disk.

import Database

/// One metric with its samples.
struct MetricFamily: Hashable, Sendable {
    /// One value with its labels.
    struct Sample: Hashable, Sendable {
        /// Names and values of the labels, in printing order.
        let labels: [Label]
        let value: Double
    }

    /// A label.
    struct Label: Hashable, Sendable {
        let name: String
        let value: String

        init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The name without the prefix.
    let name: String
    /// One sentence for the HELP line.
    let help: String
    private(set) var samples: [Sample] = []

    init(_ name: String, _ help: String) {
        self.name = name
        self.help = help
    }

    /// Adds a sample.
    mutating func add(_ value: Double, _ labels: [Label] = []) {
        samples.append(Sample(labels: labels, value: value))
    }

    /// Adds a count.
    mutating func add(_ count: Int, _ labels: [Label] = []) { add(Double(count), labels) }
}

/// A page of metrics.
enum MetricsText {
    /// The prefix of every name.
    static let prefix = "pushsweep_"

    /// The families as a page; families without a sample are left out.
    static func page(_ families: [MetricFamily]) -> String {
        families.filter { !$0.samples.isEmpty }.map(text).joined()
    }

    private static func text(_ family: MetricFamily) -> String {
        let name = prefix + family.name
        let lines = [
            "# HELP \(name) \(escaped(family.help, quotes: false))", "# TYPE \(name) gauge",
        ]
        let samples = family.samples.map { sample in
            let labels = sample.labels.map { "\($0.name)=\"\(escaped($0.value, quotes: true))\"" }
            let list = labels.isEmpty ? "" : "{\(labels.joined(separator: ","))}"
            return "\(name)\(list) \(number(sample.value))"
        }
        return (lines + samples).map { $0 + "\n" }.joined()
    }

    /// Whole numbers without a fraction, since Swift's own "1e+16" and "5.0" are harder to read.
    private static func number(_ value: Double) -> String {
        Int64(exactly: value).map(String.init) ?? "\(value)"
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        text.replacing { scalar in
            switch scalar {
            case "\\": #"\\"#
            case "\n": #"\n"#
            case "\"" where quotes: #"\""#
            // The format has no escape for other characters. They are written as in our own output,
            // with the backslash escaped.
            case _ where PlainText.hasControlCharacter(String(scalar)):
                #"\"# + scalar.escaped(asASCII: true)
            default: nil
            }
        }
    }
}
