import Operations

// The tables of a report beside those of its apps. Each has all rows; a format cuts what it cannot
// show.

extension AuditReport {
    /// One row per app and environment.
    func overview(_ verdict: Verdict) -> FigureTable {
        FigureTable(
            "Apps",
            [
                "App", "Rows", "Living", "Stale", "Stale share", "Waiting", "Problems",
            ],
            apps.map { app in
                [
                    .text(app.object), .number(app.tokens.rows), .number(app.tokens.living),
                    .number(app.tokens.stale),
                    .measure(app.tokens.stale.share(of: app.tokens.rows)),
                    .number(app.forecast.waiting),
                    .text(verdict.gravest(of: app.object)?.rawValue ?? "none"),
                ]
            })
    }

    /// The figures that differ from the earlier report; nil without one.
    var changeTable: FigureTable? {
        changes.map { changes in
            FigureTable(
                "Changes since the earlier report",
                ["About", "Figure", "Before", "After", "Difference"],
                changes.map { change in
                    let (difference, overflows) = change.after.subtractingReportingOverflow(
                        change.before)
                    let sign = difference > 0 ? "+" : ""
                    return [
                        .text(change.object), .text(change.figure), .number(change.before),
                        .number(change.after),
                        .measure(overflows ? "-" : sign + difference.grouped),
                    ]
                })
        }
    }

    /// The tables about runs, holds and quarantine that have rows.
    var operationTables: [FigureTable] {
        let tables = [
            FigureTable("Time between sweeps", ["Figure", "Value"], sweepRows),
            FigureTable("Runs by kind and exit code", "Run", runs.endings),
            FigureTable(
                "Runs that changed rows", ["Began", "Kind", "Rows", "By", "Undone", "Run"],
                runs.changing.map { run in
                    [
                        .text(run.started.moment), .text(run.kind), .number(run.rows),
                        .text(run.by), .text(run.undone ? "yes" : "no"), .text(run.run),
                    ]
                }),
            FigureTable(
                "Holds",
                ["Held", "App", "State", "Rule", "Tuples", "Decision", "Reason"],
                holds.map { hold in
                    [
                        .text(hold.held.moment), .text("\(hold.app)/\(hold.environment)"),
                        .text(hold.state), .text(hold.judgement ?? hold.cause),
                        .number(hold.tuples),
                        .text(hold.decision ?? "none yet"), .text(hold.reason ?? "none given"),
                    ]
                }),
            FigureTable("Quarantine by reason", "Reason", quarantine.reasons),
        ]
        return tables.filter { !$0.rows.isEmpty }
    }

    private var sweepRows: [[FigureTable.Cell]] {
        var rows: [[FigureTable.Cell]] = [
            [.text("Last good sweep"), .measure(runs.lastGoodSweep?.moment ?? "none")]
        ]
        if let hours = runs.hoursSince {
            rows.append([.text("Hours since then"), .measure(hours.hours)])
        }
        if let hours = runs.longestGap {
            rows.append([.text("Longest time without a sweep, hours"), .measure(hours.hours)])
        }
        if quarantine.feeds > 0 {
            rows.append([.text("Feeds in quarantine"), .number(quarantine.feeds)])
            rows.append([.text("Bytes in quarantine"), .number(quarantine.bytes)])
        }
        return rows
    }

    /// What the reader has to know about the report itself, as pairs of name and value.
    var particulars: [(name: String, value: String)] {
        var pairs = [("Period", "\(since.moment) to \(until.moment)")]
        pairs += [
            ("Made", generated.moment), ("On", host), ("By", self.operator), ("Table", table),
            ("Version", version), ("Settings digest", settings),
        ]
        return pairs.filter { !$0.1.isEmpty }.map { (name: $0.0, value: $0.1) }
    }
}
