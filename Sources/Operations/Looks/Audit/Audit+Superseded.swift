// The part of a deep audit about the older of two tokens of one device.

import APNsProtocol
import Database
import Encodings
import Findings
import Settings
import TokenHygiene
import TokenTable

extension Audit {
    /// Counts the superseded tokens of each app, and writes them into the wished file. Where the settings name no
    /// device there are none to find.
    ///
    /// - Throws: any failure of a query, or of writing the file; 75 when it was stopped.
    mutating func examineSuperseded(_ store: TokenTable, _ stored: [Partition]) throws {
        guard try store.layout().device != nil else {
            if let path = wish.supersededFile {
                report.gaps.append(
                    "superseded tokens: \(path) is not written, because no column names the device; name one "
                        + "under store.active-users.device.column")
            }
            return
        }
        do {
            guard let path = wish.supersededFile else {
                return try countSuperseded(store, stored) { _, _ in }
            }
            try ReplacedFile(path, of: "the list of superseded tokens", mode: 0o600).replace {
                append in
                try append(
                    "app,environment,key,token,registered,newer-key,newer-token,newer-registered\n")
                try countSuperseded(store, stored) { app, token in
                    try append(Self.line(app, token))
                }
            }
        } catch let failure as StoreFailure
            where [.configuration, .permission].contains(failure.code)
        {
            skip("superseded tokens", failure)
        }
    }

    private mutating func countSuperseded(
        _ store: TokenTable, _ stored: [Partition],
        _ body: (Settings.App, SupersededToken) throws -> Void
    ) throws {
        defer { context.progress.clear() }
        for (place, partition) in stored.enumerated() {
            let app = settings.apps[place]
            var search = try SupersededSearch(store, in: partition)
            var (tokens, crowded) = (0, 0)
            while let range = try search.next() {
                if context.interrupt.isTripped { throw stopped() }
                for token in range.tokens { try body(app, token) }
                tokens += range.tokens.count
                crowded += range.crowded
                context.progress.show(
                    "looking for superseded tokens of \(app.partition) (tokens)", tokens, of: nil)
            }
            report.apps[place].deep?.supersededTokens = tokens
            report.apps[place].deep?.crowdedDevices = crowded
        }
    }

    private static func line(_ app: Settings.App, _ token: SupersededToken) -> String {
        var cells = [app.name, app.environment.rawValue]
        for row in [token.older, token.newer] {
            cells += [
                row.key.text(wholeTokens: false), row.token.redacted, row.registered.rfc3339,
            ]
        }
        return CSVRecord.line(cells.map(\.inert))
    }
}
