import Foundation

/// One measured number and its reference. Absolute times depend on the machine, so the important
/// number is the ratio, measured in one run on one machine.
struct Figure: Encodable {
    /// The figure's name in the registry.
    let name: String
    /// The measured number, in `unit`.
    let value: Double
    /// The unit of `value` and `reference`.
    let unit: String
    /// The same number for the reference; nil when there is none.
    var reference: Double?
    /// `value` over `reference`, or the inverse when `target` says "at least".
    var ratio: Double?
    /// The promised ratio or value, in words.
    var target: String?
    /// Whether the promise is kept.
    var met: Bool?
    /// More numbers of the same measurement, by name.
    var extra: [String: Double] = [:]
    /// The digest of the code that was measured, as `scripts/lib/measured` prints it; nil where it is not known.
    var code: String?

    /// One line for people.
    var text: String {
        func short(_ value: Double) -> String { String(format: "%.2f", value) }
        var line = "\(name): \(short(value)) \(unit)"
        if let reference { line += ", reference \(short(reference)) \(unit)" }
        if let ratio { line += ", ratio \(short(ratio))" }
        if let target { line += ", target \(target): \(met == true ? "met" : "MISSED")" }
        for key in extra.keys.sorted() { line += ", \(key) \(short(extra[key] ?? 0))" }
        if let code { line += ", code \(code)" }
        return line
    }

    /// Enters the digest from those that `scripts/bench` passes on.
    mutating func enterCode() {
        let all = ProcessInfo.processInfo.environment["PUSHSWEEP_TEST_MEASURED"] ?? ""
        let line = all.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        code = line.map { String($0.dropFirst(name.count + 1)) }
    }
}

/// The median of the measurements.
func median(_ values: [Double]) -> Double { percentile(values, 0.5) }

/// The value that a share of the measurements does not exceed.
func percentile(_ values: [Double], _ share: Double) -> Double {
    let sorted = values.sorted()
    guard !sorted.isEmpty else { return .nan }
    return sorted[min(Int(Double(sorted.count) * share), sorted.count - 1)]
}

/// The seconds that a body takes on a monotonic clock, and its result.
func seconds<R>(_ body: () throws -> R) rethrows -> (Double, R) {
    let began = DispatchTime.now().uptimeNanoseconds
    let result = try body()
    return (Double(DispatchTime.now().uptimeNanoseconds - began) / 1e9, result)
}

/// Seconds of processor time this process has used, in all its threads.
func processorTime() -> Double {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    let times = [usage.ru_utime, usage.ru_stime]
    return times.reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6 }
}
