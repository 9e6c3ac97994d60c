import APNsProtocol
import Database
import Foundation
import Settings

extension AuditReport {
    /// Reads the JSON report of an earlier audit.
    ///
    /// - Throws: exit 64 for a file that cannot be read or is none.
    package init(file: String) throws(RunFailure) {
        func refusal(_ cause: String) -> RunFailure {
            RunFailure(
                .usage, .settings,
                "reading the earlier report \(file): \(cause); name a file that `pushsweep audit "
                    + "--output report.json` wrote")
        }
        guard let data = FileManager.default.contents(atPath: file) else {
            throw refusal(String(cString: strerror(errno)))
        }
        guard let report = try? JSONDecoder().decode(AuditReport.self, from: data) else {
            throw refusal("it is no report of an audit")
        }
        self = report
    }

    /// The figures that differ from those of an earlier report, app by app.
    func changes(since earlier: AuditReport) -> [AuditChange] {
        var changes: [AuditChange] = []
        for app in apps {
            let object = "\(app.app)/\(app.environment)"
            let before = earlier.apps.first {
                $0.app == app.app && $0.environment == app.environment
            }
            let figures = app.figures
            let old = before?.figures ?? []
            for (place, figure) in figures.enumerated() {
                let was = place < old.count ? old[place].count : 0
                if was != figure.count {
                    changes.append(
                        AuditChange(
                            object: object, figure: figure.name, before: was, after: figure.count))
                }
            }
        }
        return changes
    }
}

extension AuditedApp {
    /// The figures that are compared, in a fixed order.
    fileprivate var figures: [NamedCount] {
        [
            NamedCount("rows", tokens.rows), NamedCount("living", tokens.living),
            NamedCount("stale", tokens.stale), NamedCount("revived", tokens.revived),
            NamedCount("never registered", tokens.neverRegistered),
            NamedCount("empty", tokens.empty), NamedCount("malformed", tokens.malformed),
            NamedCount("waiting", forecast.waiting), NamedCount("queued", queue?.open ?? 0),
            NamedCount("queued to stale tokens", queue?.toStale ?? 0),
        ]
    }
}
