// The queue's claims use few rows: one per batch, not one per notification. The claim has the keys
// of its rows and the lease. Renewing a lease, handing a batch over or taking it away changes that
// one row. The queue's own rows are written once, with their result.

extension PushsweepTable {
    private static let name = ("VARCHAR(129) NOT NULL", "TEXT NOT NULL")
    private static let state = (
        "VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending'",
        "TEXT NOT NULL DEFAULT 'pending'"
    )
    private static let reason = (
        "VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL", "TEXT NULL"
    )
    private static let tally = ("INT NOT NULL DEFAULT 0", "INTEGER NOT NULL DEFAULT 0")

    /// The columns of a row's delivery state, in the row or in the side table.
    private static let deliveryColumns = [
        column("state", state), column("attempts", tally), column("not_before", timeOrNull),
        column("reason", reason), column("answered_at", timeOrNull),
    ]

    /// The queue of notifications to send, for new installations. An index over `answered_at` keeps
    /// the open rows (NULL) together in the order of their key, and a row moves in it once.
    package static let pushQueue = PushsweepTable(
        name: "push_queue",
        columns: [
            ownNumber,
            Column("app_id", "VARCHAR(64) NOT NULL", "TEXT NOT NULL"),
            ownEnvironment,
            Column("device_token", "VARBINARY(100) NOT NULL", "BLOB NOT NULL"),
            Column("payload", "VARBINARY(5120) NOT NULL", "BLOB NOT NULL"),
            Column("push_type", "VARCHAR(16) NULL", "TEXT NULL"),
            Column("priority", "TINYINT NULL", "INTEGER NULL"),
            Column("expiration", "BIGINT NULL", "INTEGER NULL"),
            Column("collapse_id", "VARCHAR(64) NULL", "TEXT NULL"),
            column("queued_at", timeOrNull),
        ] + deliveryColumns,
        primaryKey: ["id"],
        indexes: [
            Index(
                name: "open", columns: ["answered_at", "app_id", "environment"], isUnique: false)
        ])

    /// One row per queue: the random part of its `apns-id`s, and the number of the last claim. Each
    /// new claim replaces that number, so no two claims are made at the same time.
    package static let queue = PushsweepTable(
        name: "pushsweep_queue",
        columns: [
            column("name", name), Column("apns_space", "BIGINT NOT NULL", "INTEGER NOT NULL"),
            column("last_claim", number),
        ],
        primaryKey: ["name"])

    /// One row per claimed batch while it has rows without a result.
    package static let claim = PushsweepTable(
        name: "pushsweep_claim",
        columns: [
            Column("id", "BIGINT NOT NULL", "INTEGER NOT NULL"), column("queue", name),
            column("run", uuid),
            Column("host", "VARCHAR(255) NOT NULL", "TEXT NOT NULL"),
            Column(
                "state", "VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
                "TEXT NOT NULL"),
            column("expires_at", time),
            // The keys of the rows without a result, see `KeySet`.
            Column("row_keys", "MEDIUMBLOB NOT NULL", "BLOB NOT NULL"),
            Column(
                "taken_by", "VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL", "TEXT NULL"),
        ],
        primaryKey: ["id"],
        indexes: [
            Index(name: "run", columns: ["run"], isUnique: false),
            Index(name: "queue", columns: ["queue"], isUnique: false),
        ])

    /// The delivery state of rows whose queue has no columns for it.
    package static let delivery = PushsweepTable(
        name: "pushsweep_delivery",
        columns: [
            column("queue", name), Column("queue_key", "BIGINT NOT NULL", "INTEGER NOT NULL"),
        ] + deliveryColumns,
        primaryKey: ["queue", "queue_key"])

    /// The tables that sending needs in addition to the queue.
    package static let queueTables = [queue, claim, delivery]
}

/// The statements that create the tables of this program in a database.
package struct SchemaScript: Hashable, Sendable {
    /// The statements in order, without closing semicolons.
    package let statements: [String]
    /// Makes a script of given statements.
    package init(statements: [String]) { self.statements = statements }

    /// The script as printed by `schema print`, ready for a database client.
    package var text: String { statements.map { "\($0);\n" }.joined(separator: "\n") }
}

extension SchemaScript {
    /// The whole schema for a database without any of it. The store's address decides the engine, and
    /// `environments` are the words for them in tables of tokens and notifications. Needs no connection.
    package static func whole(
        for location: StoreLocation, environments: [String: String] = [:]
    ) -> SchemaScript {
        let dialect = dialect(for: location)
        let tables =
            [PushsweepTable.activeUsers, .pushQueue].map { $0.naming(environments: environments) }
            + PushsweepTable.sideTables
            + PushsweepTable.queueTables
        return SchemaScript(statements: tables.flatMap { $0.creation(dialect) })
    }

    /// The side tables only, for a database whose own tables do not change.
    package static func sideTables(for location: StoreLocation) -> SchemaScript {
        let dialect = dialect(for: location)
        let tables = PushsweepTable.sideTables + PushsweepTable.queueTables
        return SchemaScript(statements: tables.flatMap { $0.creation(dialect) })
    }

    private static func dialect(for location: StoreLocation) -> SQLDialect {
        if case .sqlite = location { .sqlite } else { .mariaDB }
    }
}
