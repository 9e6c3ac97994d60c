import APNsProtocol
import Database
import Findings
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
    /// the end of an index on the column, and where its zone is wrong in winter.
    func registrationFindings(
        _ layout: TableLayout, _ sample: TokenSample?
    ) throws(StoreFailure) -> [Finding] {
        guard let column = layout.registration else { return [] }
        let zones = try zoneFindings(layout, column)
        if let finding = try triggerFinding(layout, column) { return zones + [finding] }
        if layout.registrationMovesItself { return zones }
        return try zones + unwrittenFindings(layout, column, sample)
    }

    /// A warning where the zone of a DATETIME is greater than that of the server's own clock.
    private func zoneFindings(
        _ layout: TableLayout, _ column: TimeColumn
    ) throws(StoreFailure) -> [Finding] {
        guard case .wallClock(_, let offset) = column.storage, offset != 0 else { return [] }
        let zone = try ServerZone.read(session)
        return [zone.finding(on: offset, of: "column \(column.name) of \(layout.table)")].compactMap
        { $0 }
    }

    /// Warnings where nothing seems to write the time.
    private func unwrittenFindings(
        _ layout: TableLayout, _ column: TimeColumn, _ sample: TokenSample?
    ) throws(StoreFailure) -> [Finding] {
        let consequence = layout.lostReturn(under: settings.mapping)
        let cure =
            layout.generated.contains(column.name)
            ? "write the columns from which it is computed at each registration"
            : "write the time at each registration, or make the triggers of docs/registrations.md"
        if ColumnWords(column.name).isSetOnce {
            return [
                .warning(
                    "registration-stands-still",
                    "column \(column.name) of \(layout.table) is named as a time that is set once, and "
                        + "nothing that the account sees in the database moves it: unless the "
                        + "application does, or deletes and inserts the row, \(consequence); \(cure)"
                )
            ]
        }
        if ColumnWords(column.name).isOfSender {
            return [
                .warning(
                    "registration-moves-too-often",
                    "column \(column.name) of \(layout.table) is named as a time of the sender: a token to which "
                        + "something was sent looks registered again, and a report about it is ignored; name "
                        + "under store.active-users.registered-at the time that a registration writes"
                )
            ]
        }
        guard let sample, sample.total > 0 else { return [] }
        guard let newest = try newest(layout, column, sample) else {
            return [
                .warning(
                    "registration-stands-still",
                    "column \(column.name) of \(layout.table) is empty in all rows read, so nothing "
                        + "seems to write it: \(consequence); \(cure)")
            ]
        }
        let days = try session.databaseTime().distance(from: newest) / 86_400_000
        guard days > Self.usualAge else { return [] }
        return [
            .warning(
                "registration-stands-still",
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

    /// What a trigger that may write the time is worth; nil without one. One of others can do so only where marks
    /// stand beside the rows.
    private func triggerFinding(
        _ layout: TableLayout, _ column: TimeColumn
    ) throws(StoreFailure) -> Finding? {
        let names = try catalogTable().columns(behind: column.name)
        let writers = try triggers(layout).filter { $0.mayWrite(names) }
        guard let writer = writers.first(where: { !layout.owns($0) }) ?? writers.first else {
            return nil
        }
        let rights =
            writer.definer.map { ", with the rights of \($0), an account that has to stay" } ?? ""
        let name = "trigger \(writer.name) of \(layout.table)"
        if layout.owns(writer) {
            return .ok("\(name) writes \(column.name) when a device registers again\(rights)")
        }
        return .warning(
            "registration-moves-too-often",
            "\(name) may write \(column.name) at any write of the row by the application\(rights): each of them "
                + "would count as a registration, and older reports about the device be ignored; name a column "
                + "that only a registration writes, if there is one")
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
