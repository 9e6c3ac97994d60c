import APNsProtocol
import EvidenceJournal
import Operations
import TokenHygiene

/// Kinds of runs that this host made in a rhythm and makes no more. A job that was dropped fails nowhere: so the days
/// of its runs are compared as those of evidence are (see `Pulse`). A host that never made such runs lacks none.
struct RunRhythm {
    /// The kinds that have a rhythm of their own; that of sweeps has a fixed bound.
    static let kinds = ["import", "send"]

    /// How many whole days a kind was missing, and its longest pause before.
    private(set) var missing: [String: (days: Int, usual: Int)] = [:]

    /// Reads the runs of this host's journals. A run that is at work counts for each day up to now.
    init(_ host: inout HostFacts, _ now: EpochMilliseconds) {
        let today = Self.day(now)
        var days = Dictionary(
            uniqueKeysWithValues: Self.kinds.map {
                ($0, Array(repeating: DayOfPulse(), count: Pulse.span + 1))
            })
        let since = now.advanced(by: -Int64(Pulse.span) * 86_400_000)
        host.readEach { journal throws(JournalFailure) in
            let isAtWork = journal.folder.isHeld
            for kind in Self.kinds {
                for known in try journal.days(ofKind: kind, since: since) {
                    let last = isAtWork && known.isOpen ? today : min(known.last, today)
                    let first = max(known.first, today - Pulse.span)
                    for day in stride(from: first, through: last, by: 1) {
                        days[kind]?[day - today + Pulse.span].evidence += 1
                    }
                }
            }
        }
        for (kind, known) in days {
            guard let last = known.last else { continue }
            for case .stopped(let days, let usual) in Pulse.findings(known.dropLast(), today: last)
            {
                missing[kind] = (days, usual)
            }
        }
    }

    private static func day(_ time: EpochMilliseconds) -> Int { Int(time.rawValue / 86_400_000) }
}
