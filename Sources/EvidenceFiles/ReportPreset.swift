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
                map: .fixed(
                    [
                        .token: ".msg.token", .reason: ".msg.error", .sent: ".time",
                        .platform: ".msg.platform",
                    ], applePlatforms: ["ios"]),
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
                format: .tsv,
                map: .fixed([
                    .token: "device_token", .status: "error_code",
                    .reason: "error_description", .sent: "created_at",
                ]), unit: .iso)
        case .quarantine: ReportLayout(format: .jsonl)
        }
    }
}

extension ReportLayout {
    /// The preset whose fields these are; nil where the form or a map names them.
    private var preset: ReportPreset? {
        guard map != .standard else { return nil }
        return ReportPreset.allCases.first { $0.layout.format == format && $0.layout.map == map }
    }
    /// What to look at where the source wrote other lines than this layout reads; nil where nothing is known.
    package var hint: String? {
        preset == .gorush ? "set log.format: json and log.hide_token: false in gorush" : nil
    }

    /// Whether a map that was given says which words are Apple's platforms.
    package var hasOwnPlatform: Bool { hasOwnMap && map.paths[.platform] != nil }

    /// The value of `--from`.
    private var source: String { preset?.rawValue ?? format.rawValue }
    /// The unit of this source without `--time-unit`.
    private var usualUnit: ReportTimeUnit { preset?.layout.unit ?? .milliseconds }
    /// Whether its fields are those of a `--map`.
    private var hasOwnMap: Bool { map != .standard && preset == nil }

    /// The options of `import` that choose this layout, each with its value.
    package var options: [String] {
        ["--from", source] + (hasOwnMap ? ["--map", map.text] : [])
            + (unit == usualUnit ? [] : ["--time-unit", unit.rawValue])
    }

    /// The options that are to be given in place of those of another layout, for people.
    package func options(inPlaceOf other: ReportLayout) -> String {
        var words: [String] = []
        if source != other.source { words.append("--from \(source)") }
        // A unit that was given counts for a preset too.
        if unit != other.unit, unit != usualUnit || other.unit != other.usualUnit {
            words.append("--time-unit \(unit.rawValue)")
        }
        let drops = other.hasOwnMap && map != other.map
        return words.joined(separator: " ") + (drops ? ", without --map" : "")
    }

    /// Other ways to read a file, the nearest first. Rows of the quarantine have the fields of our table,
    /// so they need no preset here.
    fileprivate var alternatives: [ReportLayout] {
        var maps = [(format, map)]
        if hasOwnMap { maps += ReportFormat.allCases.map { ($0, map) } }
        maps += ReportFormat.allCases.map { ($0, .standard) }
        let layouts = maps.flatMap { format, map in
            ([unit] + ReportTimeUnit.allCases).map {
                ReportLayout(format: format, map: map, unit: $0)
            }
        }
        return (layouts + ReportPreset.allCases.map(\.layout)).reduce(into: []) { found, layout in
            if layout != self, !found.contains(layout) { found.append(layout) }
        }
    }
}

/// The first lines of a file, kept to find the options that read it.
package struct FileBeginning {
    /// The most lines that are judged, here and by the import. Those that are passed over do not count.
    package static let lines = 100
    /// The most bytes that are kept.
    private static let size = 1 << 20

    private(set) var bytes: [UInt8] = []
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

    /// Takes bytes that stand in the array.
    package mutating func take(_ content: some Collection<UInt8>) {
        Array(content).withUnsafeBytes { take($0) }
    }

    /// The first line with its end, such as the names of columns.
    package var firstLine: ArraySlice<UInt8> {
        bytes.prefix { $0 != UInt8(ascii: "\n") } + [UInt8(ascii: "\n")]
    }

    /// Whether gorush wrote these lines in its text format, perhaps inside of JSON.
    package var isTextOfGorush: Bool {
        let text = "| Error Message: ".utf8
        return bytes.indices.contains {
            bytes[$0] == UInt8(ascii: "|") && bytes[$0...].starts(with: text)
        }
    }

    /// The layout in place of `layout` by which most of the lines that say something can be used and one
    /// calls a token dead; nil where none is such. `isEnded` states whether the file was read to its end.
    package func layout(
        inPlaceOf layout: ReportLayout, isEnded: Bool, _ reader: ReportReader
    ) -> ReportLayout? {
        var best: (layout: ReportLayout, failures: Int)?
        for layout in layout.alternatives {
            guard let found = trial(layout, isEnded: isEnded, reader), found.evidence > 0,
                found.failures < found.evidence, found.failures < best?.failures ?? .max
            else { continue }
            best = (layout, found.failures)
        }
        return best?.layout
    }

    /// Whether a line, read by a layout, calls a token dead.
    func hasEvidence(by layout: ReportLayout, _ reader: ReportReader) -> Bool {
        (trial(layout, isEnded: true, reader)?.evidence ?? 0) > 0
    }

    /// What a layout makes of the lines; nil where it reads none.
    private func trial(
        _ layout: ReportLayout, isEnded: Bool, _ reader: ReportReader
    ) -> (evidence: Int, failures: Int)? {
        var (evidence, failures) = (0, 0)
        func add(_ line: ReportLine) {
            guard evidence + failures < Self.lines else { return }
            switch line.reading {
            case .success(.evidence): evidence += 1
            case .failure: failures += 1
            default: break
            }
        }
        var lines = ReportLines(layout, reader)
        do {
            try bytes.withUnsafeBytes { try lines.take($0, content: { _, _ in }, add) }
            if isWhole && isEnded { try lines.finish(content: { _, _ in }, add) }
        } catch {
            return nil
        }
        return (evidence, failures)
    }
}

extension UnusableReport {
    /// Whether a time is there that its unit does not read.
    package var isUnreadTime: Bool {
        if case .field(let name, _) = self { name.utf8.starts(with: "time".utf8) } else { false }
    }

    /// The option that says where or how the part is read that is not usable.
    package var option: String {
        switch self {
        case .token: "token= in --map"
        case .missingTime: "time= and sent= in --map"
        case .foreignReason: "sent= in --map"
        case .time: "--time-unit, and time= and sent= in --map"
        case .contradiction: "status= and reason= in --map"
        case .field(let name, _): isUnreadTime ? "--time-unit" : "\(name)= in --map"
        case .line, .form: "--from"
        case .nested: "--map"
        }
    }
}
