// Logs and exports that always have the same form, so that their fields need no names on the command
// line; and the search for the option that reads a file where the given ones do not. That search tries:
// the beginning of the file is read by each other unit, form and preset, and an option is named only
// where evidence comes out of it. It never decides by itself, because a wrong time can cost a token.

import Database
import Encodings
import TokenHygiene

/// A log or export with a fixed form.
package enum ReportPreset: String, Hashable, Sendable, CaseIterable {
    /// The error log of gorush with `log.format: json`, one answer in `msg` of each line.
    case gorush
    /// The delivery status log of Amazon SNS, one object a line.
    case sns
    /// Columns of rpush_notifications with a line of names, as `mysql --batch` prints them.
    case rpush
    /// Rows that a sweep could not use, as `pushsweep quarantine export` writes them.
    case quarantine

    /// The form, the fields and the unit of times.
    package var layout: ReportLayout {
        switch self {
        case .gorush:
            ReportLayout(
                format: .jsonl,
                map: .fixed([.token: ".msg.token", .reason: ".msg.error", .sent: ".time"]),
                unit: .iso)
        case .sns:
            ReportLayout(
                format: .jsonl,
                map: .fixed([
                    .token: ".delivery.token", .status: ".delivery.statusCode",
                    .time: ".delivery.providerResponse.timestamp",
                    .reason: ".delivery.providerResponse.reason",
                ]))
        case .rpush:
            ReportLayout(
                format: .csv,
                map: .fixed([
                    .token: "device_token", .status: "error_code",
                    .reason: "error_description", .sent: "created_at",
                ]), unit: .iso)
        case .quarantine: ReportLayout(format: .jsonl)
        }
    }
}

extension ReportLayout {
    /// Other ways to read a file, each with the options that choose it, the nearest first.
    fileprivate var alternatives: [(options: String, layout: ReportLayout)] {
        var found: [(options: String, layout: ReportLayout)] = []
        func add(_ options: String, _ layout: ReportLayout) {
            guard layout != self, !found.contains(where: { $0.layout == layout }) else { return }
            found.append((options, layout))
        }
        for unit in ReportTimeUnit.allCases {
            add(
                "--time-unit \(unit.rawValue)",
                ReportLayout(format: format, map: map, unit: unit))
        }
        for preset in ReportPreset.allCases {
            add("--from \(preset.rawValue), without --map", preset.layout)
        }
        // The fields of a preset go with its form.
        guard map == .standard || !ReportPreset.allCases.contains(where: { $0.layout.map == map })
        else { return found }
        for format in ReportFormat.allCases {
            for unit in [unit] + ReportTimeUnit.allCases {
                add(
                    "--from \(format.rawValue)"
                        + (unit == self.unit ? "" : " --time-unit \(unit.rawValue)"),
                    ReportLayout(format: format, map: map, unit: unit))
            }
        }
        return found
    }
}

/// The first lines of a file, kept to find the options that read it.
package struct FileBeginning {
    /// The most lines that are judged, here and by the import.
    package static let lines = 100
    /// The most bytes that are kept.
    private static let size = 1 << 18

    private var bytes: [UInt8] = []
    /// Whether the file has no more bytes than these.
    private var isWhole = true

    /// Begins before the first byte.
    package init() {}

    /// Takes the next bytes of the content, expanded where the file is gzip.
    package mutating func take(_ content: UnsafeRawBufferPointer) {
        let room = Self.size - bytes.count
        if content.count > room { isWhole = false }
        guard room > 0 else { return }
        bytes.append(contentsOf: content.prefix(room))
    }

    /// The options in place of those of `layout` by which most of the lines can be used and one calls a
    /// token dead; nil where none are such. `isEnded` states whether the file was read to its end.
    package func options(
        inPlaceOf layout: ReportLayout, isEnded: Bool, _ reader: ReportReader
    ) -> String? {
        var best: (options: String, failures: Int)?
        for (options, layout) in layout.alternatives {
            guard let found = trial(layout, isEnded: isEnded, reader), found.evidence > 0,
                found.failures * 2 < found.lines, found.failures < best?.failures ?? .max
            else { continue }
            best = (options, found.failures)
        }
        return best?.options
    }

    /// What a layout makes of the lines; nil where it reads none.
    private func trial(
        _ layout: ReportLayout, isEnded: Bool, _ reader: ReportReader
    ) -> (lines: Int, evidence: Int, failures: Int)? {
        var (count, evidence, failures) = (0, 0, 0)
        func add(_ line: ReportLine) {
            guard count < Self.lines else { return }
            count += 1
            do throws(UnusableReport) {
                guard let report = try line.report.get() else { return }
                if case .evidence = try reader.read(report) { evidence += 1 }
            } catch {
                failures += 1
            }
        }
        var lines = ReportLines(layout)
        do {
            try bytes.withUnsafeBytes { try lines.take($0, content: { _ in }, add) }
            if isWhole && isEnded { try lines.finish(content: { _ in }, add) }
        } catch {
            return nil
        }
        return (count, evidence, failures)
    }
}

extension UnusableReport {
    /// The option that says where or how the part is read that is not usable.
    package var option: String {
        switch self {
        case .token: "token= in --map"
        case .missingTime: "time= and sent= in --map"
        case .foreignReason: "sent= in --map"
        case .time: "--time-unit, and time= and sent= in --map"
        case .contradiction: "status= and reason= in --map"
        case .field(let name, _): name.hasPrefix("time") ? "--time-unit" : "\(name)= in --map"
        case .line: "--from"
        }
    }
}
