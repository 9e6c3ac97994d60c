import TestSupport

/// Triggers and foreign keys of random tables. They refuse rows whose column `holds` is 1.
enum TableObstacles {
    static func statements(_ table: RandomTable) -> [String] {
        let name = table.name
        let isServer = table.engine == .mariaDB
        func trigger(_ moment: String, _ body: String) -> String {
            isServer
                ? "CREATE TRIGGER \(name)_g \(moment) ON \(name) FOR EACH ROW IF OLD.holds = 1 THEN "
                    + "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'held', MYSQL_ERRNO = 31001; END IF"
                : "CREATE TRIGGER \(name)_g \(moment) ON \(name) WHEN OLD.holds = 1 BEGIN "
                    + "SELECT RAISE(\(body), 'held'); END"
        }
        switch table.obstacle {
        case .none, .checks, .isWithoutTransactions: return []
        case .refusesMarks: return [trigger("BEFORE UPDATE", "ABORT")]
        case .endsTransaction: return [trigger("AFTER UPDATE", "ROLLBACK")]
        case .leavesHalf: return [trigger("AFTER UPDATE", "FAIL")]
        case .logsRemovals:
            return [
                "CREATE TABLE \(name)_log (number INTEGER)",
                isServer
                    ? "CREATE TRIGGER \(name)_g AFTER DELETE ON \(name) FOR EACH ROW "
                        + "INSERT INTO \(name)_log VALUES (OLD.number)"
                    : "CREATE TRIGGER \(name)_g AFTER DELETE ON \(name) BEGIN "
                        + "INSERT INTO \(name)_log VALUES (OLD.number); END",
            ]
        case .restricts, .defers, .cascades:
            let rule =
                switch table.obstacle {
                case .cascades: "ON DELETE CASCADE"
                case .defers where !isServer: "DEFERRABLE INITIALLY DEFERRED"
                default: ""
                }
            guard hasChildren(table) else { return [] }
            let columns = table.key.columns.enumerated()
            let own = columns.map { "k\($0.offset) \($0.element.column.type)" }.joined(
                separator: ", ")
            let names = columns.map { "k\($0.offset)" }.joined(separator: ", ")
            let parents = table.key.columns.map(\.name).joined(separator: ", ")
            return [
                "CREATE TABLE \(name)_child (\(own), FOREIGN KEY (\(names)) REFERENCES \(name) (\(parents)) "
                    + "\(rule))" + (isServer ? " ENGINE=InnoDB CHARACTER SET utf8mb4" : "")
            ]
        }
    }

    /// Whether the table's key can be referred to and its children found.
    static func hasChildren(_ table: RandomTable) -> Bool {
        [.restricts, .defers, .cascades].contains(table.obstacle)
            && table.key.columns.allSatisfy {
                ["INT", "INTEGER", "BIGINT", "TEXT"].contains($0.column.type)
            }
    }

    /// The row of the child table that holds a row.
    static func child(of table: RandomTable, _ number: Int) -> String? {
        guard hasChildren(table) else { return nil }
        let keys = table.key.columns.map(\.name).joined(separator: ", ")
        return
            "INSERT INTO \(table.name)_child SELECT \(keys) FROM \(table.name) WHERE number = \(number)"
    }

    /// Whether it has a trigger that can write the row that is changed.
    static func mayWriteRow(_ table: RandomTable) -> Bool {
        table.obstacle == .refusesMarks
            || table.engine == .sqlite && [.endsTransaction, .leavesHalf].contains(table.obstacle)
    }

    static func refusesMark(_ obstacle: RandomTable.Obstacle, _ holds: Bool) -> Bool {
        holds && [.refusesMarks, .checks, .endsTransaction, .leavesHalf].contains(obstacle)
    }

    static func refusesRemoval(_ table: RandomTable, _ holds: Bool) -> Bool {
        holds && hasChildren(table)
    }
}
