import Database
import TokenHygiene

/// A range of bytes in a captured list that is not evidence. The bytes stay in the journal unchanged.
package struct Quarantined: Codable, Hashable, Sendable {
    /// Offset of the first byte in the list, from 0.
    package let offset: Int
    /// Number of bytes.
    package let length: Int
    /// Why the bytes are not evidence.
    package let reason: String

    package init(offset: Int, length: Int, reason: String) {
        self.offset = offset
        self.length = length
        self.reason = reason
    }
}

extension EvidenceJournal {
    /// Records a place with bytes that are not evidence. Recording it again changes nothing.
    package func quarantine(
        _ entries: [Quarantined], of list: String
    ) throws(JournalFailure) {
        guard !entries.isEmpty else { return }
        try perform("quarantining parts of list \(list)") { db in
            try db.transaction {
                for entry in entries {
                    try db.change(
                        """
                        INSERT OR REPLACE INTO quarantine
                        VALUES (\(list), \(entry.offset), \(entry.length), \(entry.reason))
                        """)
                }
            }
        }
    }

    /// The quarantined places of a list, in list order, at most `limit`.
    package func quarantined(
        of list: String, limit: Int = .max
    ) throws(JournalFailure) -> [Quarantined] {
        try rows(
            "listing the quarantine of list \(list)",
            "SELECT * FROM quarantine WHERE feed = \(list) ORDER BY start LIMIT \(limit)"
        ) { row in
            Quarantined(
                offset: try row.value("start"), length: try row.value("length"),
                reason: try row.value("reason"))
        }
    }
}
