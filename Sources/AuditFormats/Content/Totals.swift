import Operations

/// The figures of all apps together.
struct Totals: Hashable, Sendable {
    /// The rows of all apps.
    let rows: Int
    /// Rows that may be sent to.
    let living: Int
    /// Rows with a dead token.
    let stale: Int
    /// Evidence that waits for a sweep.
    let waiting: Int
    /// Stale rows by age.
    let staleAges: [NamedCount]
    /// Living rows by the age of their registration.
    let registrationAges: [NamedCount]
    /// Evidence by what became of it.
    let outcomes: [NamedCount]
    /// Evidence by day and source.
    let evidence: [EvidenceDay]

    /// Adds up some apps.
    init(_ apps: [AuditedApp]) {
        rows = apps.map(\.tokens.rows).total
        living = apps.map(\.tokens.living).total
        stale = apps.map(\.tokens.stale).total
        waiting = apps.map(\.forecast.waiting).total
        staleAges = Self.sum(apps.map(\.staleAges))
        registrationAges = Self.sum(apps.map(\.registrationAges))
        evidence = apps.flatMap(\.evidence)
        let entries = evidence
        outcomes = EvidenceOutcome.allCases.map { outcome in
            NamedCount(outcome.rawValue, entries.map(outcome.count).total)
        }
    }

    /// Adds up counts of the same name. An app may lack a name that others have: it keeps its place
    /// after the name before it.
    static func sum(_ lists: [[NamedCount]]) -> [NamedCount] {
        var sums: [NamedCount] = []
        var places: [[UInt8]: Int] = [:]
        for list in lists {
            var place = 0
            for entry in list {
                if let known = places[Array(entry.name.utf8)] {
                    sums[known].count = sums[known].count.adding(entry.count)
                    place = known + 1
                } else {
                    sums.insert(entry, at: place)
                    for index in place..<sums.count {
                        places[Array(sums[index].name.utf8)] = index
                    }
                    place += 1
                }
            }
        }
        return sums
    }
}
