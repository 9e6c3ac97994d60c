import APNsProtocol
import Database
import TokenHygiene

extension TokenTable {
    /// The terms, apart from the policy, that decide which rows of a partition match evidence and
    /// how they are judged: database, table and columns as resolved, and the values of app and
    /// environment. The same settings on the same table give the same terms; the account is not
    /// part of them.
    ///
    /// - Throws: `configuration` where the table does not fit the settings.
    package func terms(of partition: Partition) throws(StoreFailure) -> [String] {
        let layout = try layout()
        let condition = try layout.partitionCondition(partition, connection.dialect)
        var terms = [
            settings.location.place, layout.table.description,
            layout.key.map(\.name).joined(separator: "\n"),
            layout.token.name, layout.token.encoding.rawValue,
            layout.app?.name ?? "", layout.environment?.name ?? "",
        ]
        terms += condition.values.map { $0.text ?? $0.integer.map(String.init) ?? "" }
        for column in [layout.registration, layout.mark] {
            terms += [column?.name ?? "", column.map { "\($0.storage)" } ?? ""]
        }
        terms.append(layout.reason ?? "")
        return terms
    }
}

extension StoreLocation {
    /// The location without the account.
    fileprivate var place: String {
        guard case .server(let server) = self else { return description }
        return StoreLocation.server(
            Server(address: server.address, user: "", database: server.database)
        ).description
    }
}
