import Database
import TokenHygiene

/// Which entries of a checkpoint are about the table, the token and the mark that the settings name.
struct EntryOwnership: Hashable {
    private let likeness: EntryColumns.Likeness
    private let isOfGrace: Bool

    /// The entries of a checkpoint that has these values of `table_name`, `key_columns` and `source`.
    init(_ layout: TableLayout, table: String?, columns: String?, source: String?) {
        likeness =
            layout.isNamed(table)
            ? layout.entryColumns.likeness(to: columns) : EntryColumns.Likeness()
        isOfGrace = source == EvidenceSource.grace.rawValue
    }

    /// Whether an entry is about something else than the settings name. The image of a removed row has all
    /// of its columns. A mark beside the table has none, unless it goes with the mark of a row.
    func isForeign(_ entry: LedgerEntry) -> Bool {
        guard likeness.hasKey, likeness.hasToken else { return true }
        switch entry.action {
        case "mark", "advance", "restore": return !likeness.hasMark
        case "side-mark", "side-restore":
            return entry.isCompanion && !isOfGrace && !likeness.hasMark
        default: return false
        }
    }
}
