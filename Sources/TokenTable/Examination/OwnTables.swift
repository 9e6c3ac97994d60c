// Tables of an earlier build are not taken over: which they are is told by columns without a default, which rows that
// are there already cannot get. A column or an index that may be added is.

import Database
import Findings

extension TokenTable {
    /// Findings about side tables that do not have the required form; missing ones are named in one
    /// sentence, and those that may be hidden each with its right.
    package func missingTables(_ tables: [PushsweepTable]) throws(StoreFailure) -> [Finding] {
        let found: [(own: PushsweepTable, known: CatalogTable?)]
        do {
            found = try ownTables(tables)
        } catch {
            guard error.code == .configuration || error.code == .permission else { throw error }
            return [Finding(error)]
        }
        var findings: [Finding] = []
        for case (let own, let known?) in found {
            if let finding = Self.engineFinding(known) { findings.append(finding) }
            let absent = own.absentColumns(of: known).map(\.name)
            guard !absent.isEmpty else { continue }
            findings.append(
                .failure(
                    .configuration,
                    "table \(own.name) lacks the columns \(absent.joined(separator: ", ")); run `pushsweep schema "
                        + "apply` with an account that may change tables, which adds them and keeps all rows"
                ))
        }
        var absent: [String] = []
        for (own, known) in found where known == nil {
            let visibility = try session.visibility(of: own.name, own.primaryKey[0])
            if visibility == .hidden, let gap = try session.gap(in: own, visibility) {
                findings.append(.failure(.permission, gap))
            } else {
                absent.append(own.name)
            }
        }
        guard !absent.isEmpty else { return findings }
        let what = absent.count == 1 ? "table" : "tables"
        findings.append(
            .failure(
                .configuration,
                "missing from the database: \(what) \(absent.joined(separator: ", ")); run "
                    + "`pushsweep schema apply` with an account that may create tables, then grant this "
                    + "account its rights on them",
                hint: ": `pushsweep check --grants` prints the statements"))
        return findings
    }

    /// That an earlier build made the tables, which a look would take for missing ones. Where the account sees only a part,
    /// it is not known.
    func earlierTables() throws(StoreFailure) -> [Finding] {
        do {
            _ = try ownTables([.batch])
        } catch {
            guard error.code != .permission else { return [] }
            guard error.code == .configuration else { throw error }
            return [Finding(error)]
        }
        return []
    }

    /// Tables of ours as the database describes them; nil for one that is not there.
    ///
    /// - Throws: `configuration` where an earlier build made some; `permission` where the account sees only some
    ///   columns of one; any failure of a query.
    package func ownTables(
        _ tables: [PushsweepTable]
    ) throws(StoreFailure) -> [(own: PushsweepTable, known: CatalogTable?)] {
        var found: [(own: PushsweepTable, known: CatalogTable?)] = []
        var earlier: [PushsweepTable] = []
        var hasFormer = false
        for own in tables {
            let known = try retries.retrying(
                "looking for \(own.name)",
                do: Catalog(connection: connection).table(TableName(name: own.name)))
            found.append((own, known))
            let absent = known.map(own.absentColumns) ?? []
            try requireSight(of: absent.map(\.name), in: own)
            if !absent.allSatisfy(\.mayBeAdded) { earlier.append(own) }
            // Others named batches by another column then, whose name is the same.
            if own == .batch, known == nil {
                hasFormer =
                    try retries.retrying(
                        "looking for \(PushsweepTable.formerBatch)",
                        do: Catalog(connection: connection).table(
                            TableName(name: PushsweepTable.formerBatch))) != nil
            }
        }
        guard hasFormer || !earlier.isEmpty else { return found }
        // What the queue's tables have says which notifications were sent.
        let dropped =
            PushsweepTable.sideTables + earlier.filter(PushsweepTable.queueTables.contains)
        let all = (hasFormer ? [PushsweepTable.formerBatch] : []) + earlier.map(\.name)
        let (names, isOne) = (all.joined(separator: ", "), all.count == 1)
        throw StoreFailure(
            .configuration,
            "reading the tables of Pushsweep: \(names) \(isOne ? "is" : "are") of an earlier build, which this one does "
                + "not read; drop the tables, which loses what is in them, as marks in pushsweep_invalid, waiting "
                + "reports in pushsweep_evidence and the undo of earlier changes, then run `pushsweep schema apply`, "
                + "both with an account that may change tables: "
                + PushsweepTable.removal(
                    of: dropped, and: hasFormer ? [PushsweepTable.formerBatch] : [],
                    connection.dialect))
    }

    /// Refuses an account to which columns of one of our tables only look missing.
    private func requireSight(
        of columns: [String], in own: PushsweepTable
    ) throws(StoreFailure) {
        guard case .server = settings.location else { return }
        let table = TableName(name: own.name)
        for column in columns where try presence(of: column, in: table) != .absent {
            guard let grant = try session.grant({ $0.reading(nil, of: table) }) else { return }
            throw StoreFailure(
                .permission,
                "reading the tables of Pushsweep: the account may see only some columns of \(own.name), and not "
                    + "\(column); run \(grant), or what `pushsweep check --grants` prints for an administrator"
            )
        }
    }
}
