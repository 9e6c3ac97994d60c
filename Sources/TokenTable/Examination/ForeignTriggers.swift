import Database
import Findings
import TokenHygiene

// A trigger that can write the row that we change can take the mark back, move the registration, so that the mark
// is void, and in SQLite write any other row. A server's trigger can write its row only before the row is written;
// one of SQLite can at any time. Whether it does is not read from its statements: it may call another one, or do it for
// some rows. So where such a trigger stands, no mark goes into the row. Marks beside the rows are the way out: they
// change no row, so they run no trigger, and all else stays as it is. What was read waits until a person has decided.
//
// A row that comes back is inserted. On a server a trigger can change that row alone, which the trial of a removal
// shows; in SQLite it can write other rows, so there no row is removed, nor brought back, beside such a trigger.

extension TokenTable {
    /// Refuses a use that would run a trigger of others which can write the table.
    func foreignTriggerFindings(
        _ layout: TableLayout, _ reach: TableReach, _ need: TableUse, _ partitions: [Partition]
    ) throws(StoreFailure) -> [Finding] {
        let foreign = reach.triggers.filter { $0.mayWriteTable && !layout.owns($0) }
        let updating = foreign.filter { $0.event == "UPDATE" }
        if !layout.markColumns.isEmpty, !updating.isEmpty,
            need == .read || need.rows?.marks == true
        {
            return [
                .failure(
                    .configuration,
                    Self.named(updating)
                        + " of \(layout.table) can write a row while it is changed, so a mark in "
                        + "\(layout.markColumns[0]) may be taken back, or count as a registration, and no undo "
                        + "could take it back; keep marks beside the rows: "
                        + (try besides(layout, partitions)) + "; or remove the trigger",
                    isAboutRows: need == .read)
            ]
        }
        let removing = need.removesRows ? updating : []
        let inserting =
            connection.dialect.engine == .sqlite && (need.removesRows || need.rows?.inserts == true)
            ? foreign.filter { $0.event != "DELETE" } : []
        let stopping = inserting.isEmpty ? removing : inserting
        guard !stopping.isEmpty else { return [] }
        return [
            .failure(
                .configuration,
                Self.named(stopping)
                    + " of \(layout.table) can write rows when one is changed or comes back, so "
                    + "none is removed or brought back; set policy.action to mark, or remove the trigger"
            )
        ]
    }

    private static func named(_ triggers: [TableReach.Trigger]) -> String {
        let names = Set(triggers.map(\.name)).sorted()
        return "trigger \(names.joined(separator: ", "))"
    }

    /// What keeps marks beside the rows: the settings, and the statements for the marks that are in them.
    private func besides(
        _ layout: TableLayout, _ partitions: [Partition]
    ) throws(StoreFailure) -> String {
        let setting =
            "write invalidated-at: none and no living under store.active-users, and copy the marks once"
        do {
            let copies = try copiedMarks(partitions)
            return "\(setting), in one transaction: \(copies.joined(separator: "; "))"
        } catch {
            guard error.code == .configuration else { throw error }
            return "\(setting) by the statement that `pushsweep check` prints"
        }
    }
}
