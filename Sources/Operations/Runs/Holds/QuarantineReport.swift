import Encodings
import APNsProtocol
import Database
import FoundationEssentials
import Glibc
import Settings
import TokenHygiene
import TokenTable

/// The batches with quarantined parts: one JSON object for scripts. Fields may be added, never renamed.
package struct QuarantineList: PrintedLines, Codable, Hashable, Sendable {
    /// The most parts and reasons listed of one batch; one of garbage has thousands.
    private static let mostParts = 20

    /// One batch with quarantined parts.
    package struct Entry: Codable, Hashable, Sendable {
        /// The batch's name.
        package let batch: String
        /// The app's name in the settings; `none` for reports that name any.
        package let app: String
        /// `production` or `sandbox`.
        package let environment: String
        /// `host:port` of the gateway, the path of the file, or the name of the table.
        package let source: String
        /// The host that heard it.
        package let host: String
        /// When it was heard, RFC 3339.
        package let opened: String
        /// Number of bytes of all parts.
        package let bytes: Int
        /// Number of parts.
        package let places: Int
        /// The parts by reason, most first.
        package let reasons: [Reason]
        /// The first parts: offset, or number of the row or line, and length.
        package let first: [Part]
    }

    /// A part that cannot be used.
    package struct Part: Codable, Hashable, Sendable {
        /// The offset of its first byte, or the number of its row or line.
        package let offset: Int
        /// Number of bytes.
        package let length: Int
        /// Why it cannot be used.
        package let reason: String
    }

    /// Parts that cannot be used for one reason.
    package struct Reason: Codable, Hashable, Sendable {
        package let name: String
        package let count: Int
        /// Where the first of them is: `line 4`, `row 17`, `byte 38`.
        package let first: String
    }

    /// The batches, oldest first.
    package let batches: [Entry]
    package var exit: Int32 = 0
    /// Whether the text names each part, of one batch, besides the reasons.
    private let showsParts: Bool

    private enum CodingKeys: CodingKey { case batches, exit }

    package init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        batches = try fields.decode([Entry].self, forKey: .batches)
        exit = try fields.decode(Int32.self, forKey: .exit)
        showsParts = false
    }

    /// Reads the quarantine of the database that settings name, or the one batch whose name begins so, then with up to
    /// a thousand of its parts.
    ///
    /// - Throws: failures of the database; exit 77 or 78 where the account cannot see it, 64 for a name that is none.
    package init(of settings: Settings, batch name: String? = nil) throws {
        showsParts = name != nil
        let most = name == nil ? Self.mostParts : 1_000
        batches = try settings.quarantine { quarantine in
            try (name.map { [try quarantine.batch($0)] } ?? quarantine.batches()).map { found in
                let origin = found.origin
                return Entry(
                    batch: found.batch, app: origin?.partition.app ?? Partition.noApp.app,
                    environment: origin?.partition.environment ?? Partition.noApp.environment,
                    source: origin?.label ?? "unknown", host: origin?.host ?? "unknown",
                    opened: (origin?.opened ?? EpochMilliseconds(0)).rfc3339, bytes: found.bytes,
                    places: found.parts,
                    reasons: try quarantine.reasons(in: found.batch, limit: most).map {
                        Reason(
                            name: $0.reason, count: $0.parts,
                            first: "\(origin?.placesWord ?? "place") \($0.first)")
                    },
                    first: try quarantine.parts(of: found.batch, limit: most).map {
                        Part(offset: $0.place, length: $0.length, reason: $0.reason)
                    })
            }
        }
    }

    package var lines: [String] {
        batches.isEmpty
            ? ["nothing is quarantined"]
            : batches.flatMap { $0.lines + (showsParts ? $0.partLines : []) }
    }
}

extension QuarantineList.Entry {
    fileprivate var lines: [String] {
        let head =
            "\(batch) \(Partition(app: app, environment: environment)) from \(source) on \(host), heard \(opened): "
            + "\(bytes.counting("byte")) in \(places.counting("part"))"
        let listed = reasons.reduce(0) { $0 + $1.count }
        let more = places - listed
        return [head] + reasons.map { "  \($0.count) \($0.name), first: \($0.first)" }
            + (more > 0 ? ["  and \(more.counting("part")) for other reasons"] : [])
    }

    /// A line for each part.
    fileprivate var partLines: [String] {
        // The reasons name what a place counts.
        let word = reasons.first.map { String($0.first.prefix { $0 != " " }) } ?? "place"
        let more = places - first.count
        return ["parts:"]
            + first.map { "  \(word) \($0.offset), \($0.length.counting("byte")): \($0.reason)" }
            + (more > 0
                ? ["  and \(more.counting("more part")); pushsweep quarantine export has all"] : [])
    }
}

extension ReportBatch {
    /// What the place of a quarantined part counts.
    fileprivate var placesWord: String {
        switch (inlet, source) {
        case (.table, _): "row"
        case (_, .unusable): "line"
        default: "byte"
        }
    }
}

extension Settings {
    /// Opens the database of these settings and runs a body on its quarantine.
    fileprivate func quarantine<Value>(
        for use: StoreUse = .reports, _ body: (Quarantine) throws -> Value
    ) throws(RunFailure) -> Value {
        try reading(for: use) { store in
            try Batches(store).ensureVisible()
            if use == .changes {
                try store.require(.read, on: [.quarantine], deletingFrom: [.quarantine])
            }
            return try body(Quarantine(store))
        }
    }
}

extension Quarantine {
    /// The quarantined batch that a person names.
    ///
    /// - Throws: exit 64 where nothing of it is quarantined.
    fileprivate func batch(_ name: String) throws -> QuarantinedBatch {
        let found = try batches().filter { $0.batch == name || $0.batch.hasPrefix(name) }
        guard let only = found.first, found.count == 1, !name.isEmpty else {
            throw RunFailure(
                .usage, .state,
                "looking for the quarantine of \(SettingText.quoted(name)): "
                    + (found.count > 1 ? "several begin so" : "nothing of this name is quarantined")
                    + "; see: pushsweep quarantine list")
        }
        return only
    }
}

/// The result of writing the quarantined parts of a batch to a file.
package struct QuarantineExport: PrintedLines, Codable, Hashable, Sendable {
    /// The batch's name.
    package let batch: String
    package let file: String
    /// Number of bytes written.
    package let bytes: Int
    /// Parts of which the quarantine keeps the first 8,192 bytes only; absent where there are none.
    package var cut: Int?
    /// How its rows or lines came; absent for a list, and where that is not known any more.
    package let inlet: String?
    package var exit: Int32 = 0

    /// Writes the parts to a new file that only its owner may read, never over an existing one: lines and rows a
    /// line each, bytes of a gateway's list as they came.
    ///
    /// - Throws: failures of the database; exit 64 where nothing of the batch is quarantined, exit 73 where
    ///   the file cannot be written.
    package init(of name: String, to file: String, _ settings: Settings) throws {
        guard file != "-" else {
            throw RunFailure(
                .usage, .report, "exporting the quarantine of \(name): - is no file; name one")
        }
        var (bytes, cut, inlet) = (0, 0, Inlet?.none)
        batch = try settings.quarantine { quarantine in
            let found = try quarantine.batch(name)
            let isList = found.origin?.source == .feedback
            inlet = isList ? nil : found.origin?.inlet
            // O_EXCL follows no link and overwrites nothing (open(2)), also in another user's folder.
            let descriptor = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else {
                throw RunFailure(
                    .cannotCreate, .report,
                    "creating \(file) for batch \(found.batch): \(String(cString: strerror(errno))); name a "
                        + "file that does not exist in a folder that can be written")
            }
            defer { close(descriptor) }
            do {
                var last: Int?
                while case let parts = try quarantine.parts(
                    of: found.batch, after: last, limit: 500), let end = parts.last
                {
                    let text = parts.flatMap { $0.bytes + (isList ? [] : [UInt8(ascii: "\n")]) }
                    try Self.write(text, to: descriptor, named: file)
                    bytes += text.count
                    cut += parts.count(where: \.isCut)
                    last = end.place
                }
            } catch {
                unlink(file)
                throw error
            }
            return found.batch
        }
        (self.file, self.bytes, self.inlet) = (file, bytes, inlet?.rawValue)
        self.cut = cut > 0 ? cut : nil
    }

    private static func write(
        _ bytes: [UInt8], to descriptor: Int32, named file: String
    ) throws(RunFailure) {
        guard !writeWhole(bytes, to: descriptor) else { return }
        throw RunFailure(
            .cannotCreate, .report,
            "writing to \(file): \(String(cString: strerror(errno)).lowercased()); free disk space or "
                + "name a file elsewhere")
    }

    package var lines: [String] {
        ["\(file): \(bytes.counting("byte"))"]
            + (cut.map {
                [
                    "\($0.counting("part")) \($0 == 1 ? "was" : "were") longer than 8,192 bytes, and the rest is "
                        + "not kept"
                ]
            } ?? []) + way
    }

    /// How what was corrected comes back.
    private var way: [String] {
        switch inlet.flatMap(Inlet.init(rawValue:)) {
        case .table:
            ["corrected rows come back by: pushsweep import \(file.shellWord) --from quarantine"]
        case .file:
            [
                "corrected lines come back by the --from and --map of their first import: pushsweep import "
                    + "\(file.shellWord) ..."
            ]
        default: []
        }
    }
}

/// The result of discarding the quarantine of a batch.
package struct QuarantineDiscard: PrintedLines, Codable, Hashable, Sendable {
    /// The batch's name.
    package let batch: String
    /// Number of parts that were quarantined.
    package let places: Int
    package var exit: Int32 = 0

    /// Discards the quarantine of a batch.
    ///
    /// - Throws: failures of the database; exit 64 where nothing of the batch is quarantined.
    package init(of name: String, _ settings: Settings, _ context: RunContext) throws {
        (batch, places) = try settings.quarantine(for: .changes) { quarantine in
            let found = try quarantine.batch(name)
            let isTripped = { context.interrupt.isTripped }
            return (found.batch, try quarantine.discard(found.batch, shouldStop: isTripped))
        }
    }

    package var lines: [String] {
        ["\(batch): \(places.counting("part")) removed from the quarantine"]
    }
}
