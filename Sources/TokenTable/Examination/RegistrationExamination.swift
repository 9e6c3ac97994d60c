import APNsProtocol
import Database
import TokenHygiene

// A device that came back is kept because its registration is later than the evidence. That holds
// only if something writes the time at every registration: the application, the database by itself,
// or a trigger. What the application does is not in the catalog. So the examination looks at what
// the time looks like: whether rows have one, whether the newest is of these days, and whether the
// column's name says that the time is set once.

extension TokenTable {
    /// The days after which the newest registration of a table is suspicious.
    private static let usualAge: Int64 = 30

    /// Warnings where nothing seems to write the time of a registration, by the rows of the sample and
    /// the end of an index on the column.
    func registrationFindings(
        _ layout: TableLayout, _ sample: TokenSample?
    ) throws(StoreFailure) -> [Finding] {
        guard let column = layout.registration else { return [] }
        if let finding = try triggerFinding(layout, column) { return [finding] }
        if layout.registrationMovesItself { return [] }
        let consequence = layout.lostReturn(under: settings.mapping)
        let cure =
            layout.generated.contains(column.name)
            ? "write the columns from which it is computed at each registration"
            : "write the time at each registration, or make the triggers of docs/registrations.md"
        if ColumnWords(column.name).isSetOnce {
            return [
                .warning(
                    "column \(column.name) of \(layout.table) is named as a time that is set once, and "
                        + "nothing that the account sees in the database moves it: unless the "
                        + "application does, or deletes and inserts the row, \(consequence); \(cure)"
                )
            ]
        }
        guard let sample, sample.total > 0 else { return [] }
        guard let newest = try newest(layout, column, sample) else {
            return [
                .warning(
                    "column \(column.name) of \(layout.table) is empty in all rows read, so nothing "
                        + "seems to write it: \(consequence); \(cure)")
            ]
        }
        let days = try session.databaseTime().distance(from: newest) / 86_400_000
        guard days > Self.usualAge else { return [] }
        return [
            .warning(
                "the newest \(column.name) among the rows read of \(layout.table) is \(days) days old: if "
                    + "devices still register, nothing writes it, and \(consequence); \(cure)")
        ]
    }

    private func newest(
        _ layout: TableLayout, _ column: TimeColumn, _ sample: TokenSample
    ) throws(StoreFailure) -> EpochMilliseconds? {
        let isIndexed = try catalogTable().indexes.contains {
            $0.columns.first?.lowercased() == column.name.lowercased()
        }
        guard isIndexed else { return sample.newest }
        let name = connection.dialect.quoted(column.name)
        let last = try retries.retrying(
            "reading registrations of \(layout.table)",
            do: connection.query(
                "SELECT \(name) FROM \(layout.table.sql(connection.dialect)) ORDER BY \(name) DESC LIMIT 1"
            )
        ).scalar
        let known = last.flatMap { column.isUnreadable($0) ? nil : column.registration($0) }
        return [known, sample.newest].compactMap { $0 }.max()
    }

    /// What a trigger that writes the time is worth; nil without one. A server shows the statements of
    /// a trigger to accounts with the right TRIGGER only.
    private func triggerFinding(
        _ layout: TableLayout, _ column: TimeColumn
    ) throws(StoreFailure) -> Finding? {
        let triggers = try triggers(layout).filter { $0.event == "UPDATE" }
        let writer =
            triggers.first { $0.isOwn }
            ?? triggers.first {
                $0.writes(
                    column.name, whenUpdating: layout.token.name, of: layout.table,
                    connection.dialect.engine)
            }
        guard let writer else { return nil }
        let rights =
            writer.definer.map { ", with the rights of \($0), an account that has to stay" } ?? ""
        return .ok(
            "trigger \(writer.name) of \(layout.table) writes \(column.name) when a device "
                + "registers again\(rights)")
    }

    /// The triggers of the table that the account sees.
    func triggers(_ layout: TableLayout) throws(StoreFailure) -> [TableReach.Trigger] {
        try retries.retrying(
            "reading the triggers of \(layout.table)",
            do: Catalog(connection: connection).triggers(of: layout.table))
    }
}

extension TableLayout {
    /// What happens to a device that registers again where no time shows it, as the end of a
    /// sentence.
    func lostReturn(under mapping: TableMapping) -> String {
        let returned = "a device that registers again with the same token"
        if let living {
            return
                "\(returned) can be marked by an older signal, and stays so until the application "
                + "sets \(living.name) to `\(mapping.living.living ?? "")`"
        }
        if let mark {
            return "\(returned), or with another one in the same row, stays marked until the "
                + "application empties \(mark.name) or deletes the row and inserts it again"
        }
        // A new row has a new time, where there is one.
        let whatever =
            registration == nil ? ", also if its row is deleted and inserted again," : ""
        return "\(returned) stays marked\(whatever) until an undo takes the mark out of "
            + "pushsweep_invalid"
    }
}
