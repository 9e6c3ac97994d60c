// A mapping may be wrong for weeks: another value for an app, another spelling of tokens, another table. Each report
// then finds no row, or one that cannot be judged, and changes nothing. Once the mapping is right, those reports are
// judged again, once for each mapping. A mapping is table, columns and values, as a digest; each batch knows all
// under which its reports were judged.
//
//   applied batch, mapping A: changed rows, newer | unknown, refused --the mapping is B--> the second kind moves
//   batch of the inlet `earlier`, filling --the last old batch is done--> waiting, and judged as any other; A B
//
// A report that a later registration answered is not among them: a column for registrations that is exchanged by
// mistake would mark every device that ever came back. A policy makes no row findable, so it is no part of the digest.
// All that move have one batch for each source, so that the guard looks at them as a whole. A run that is killed
// leaves a batch with what has moved, which is judged, and the rest moves into another one.

import APNsProtocol
import Database
import Findings
import TokenHygiene

extension Batches {
    /// The batches of an app of the settings whose reports were never judged under a mapping and of which some
    /// found no row that they could change, in the order in which they were heard. An undo that came after an older batch may be gone
    /// from the ledger, so none older than the retention is among them.
    ///
    /// - Throws: any failure of a query.
    package func judged(
        neverUnder mapping: String, about name: Partition
    ) throws(StoreFailure) -> [ReportBatch] {
        try read(
            "state = 'applied' AND app_name = ? AND environment = ? AND "
                + "unknown_tokens + refused > 0 AND trimmed < 2 AND reports > removed AND opened_at > "
                + connection.dialect.now(adding: -Int(ReportRetention.days) * 86_400),
            [.text(name.app), .text(name.environment)]
        ).filter { EvidenceSource.ofMarks.contains($0.source) && $0.isNew(mapping) }
    }
}

extension ReportBatch {
    /// Whether its reports were never judged under a mapping, and not under so many that somebody seems to change it
    /// each hour.
    fileprivate func isNew(_ mapping: String) -> Bool {
        !mappings.isEmpty && !mappings.contains(mapping) && mappings.count < Self.mostMappings
    }

    /// Whether a sweep judges reports again that found no row, under a mapping of today.
    package func isJudgedAgain(under mapping: String, at now: EpochMilliseconds) -> Bool {
        state == .applied && EvidenceSource.ofMarks.contains(source) && isNew(mapping)
            && now.distance(from: opened) < ReportRetention.days * 86_400_000
    }
}
