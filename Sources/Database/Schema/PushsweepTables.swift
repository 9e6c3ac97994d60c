// Times are UTC: DATETIME(3) on servers, ISO 8601 text with milliseconds in SQLite. App names
// compare byte by byte (utf8mb4_bin), because evidence for `chat` must not change rows of `Chat`.

extension PushsweepTable {
    private static let word = ("VARCHAR(64) NOT NULL", "TEXT NOT NULL")
    static let uuid = (
        "VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL", "TEXT NOT NULL"
    )
    static let number = ("BIGINT NOT NULL DEFAULT 0", "INTEGER NOT NULL DEFAULT 0")
    static let time = ("DATETIME(3) NOT NULL", "DATETIME NOT NULL")
    static let timeOrNull = ("DATETIME(3) NULL", "DATETIME NULL")
    private static let digestOrNull = (
        "CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL", "TEXT NULL"
    )
    private static let shortOrNull = ("VARCHAR(32) NULL", "TEXT NULL")

    static func column(_ name: String, _ type: (String, String)) -> Column {
        Column(name, type.0, type.1)
    }

    /// The number of a row that the database gives.
    static let ownNumber = numbered("id")
    private static func numbered(_ name: String) -> Column {
        Column(name, "BIGINT NOT NULL AUTO_INCREMENT", "INTEGER PRIMARY KEY AUTOINCREMENT")
    }
    /// The number of a row of another table.
    private static let numberOfOther = ("BIGINT NOT NULL", "INTEGER NOT NULL")
    static let ownEnvironment = Column(
        "environment", "VARCHAR(16) NOT NULL DEFAULT 'production'",
        "TEXT NOT NULL DEFAULT 'production'")

    /// The number of characters in the longest key of a row that the ledger can hold.
    package static let longestKey = 2_048

    /// The table of device tokens, for new installations.
    package static let activeUsers = PushsweepTable(
        name: "active_users",
        columns: [
            ownNumber,
            column("user_id", word),
            column("app_id", word),
            ownEnvironment,
            Column("device_token", "VARBINARY(100) NOT NULL", "BLOB NOT NULL"),
            column("registered_at", time),
            column("invalidated_at", timeOrNull),
            column("invalid_reason", shortOrNull),
        ],
        primaryKey: ["id"],
        indexes: [
            Index(
                name: "device", columns: ["device_token", "app_id", "environment"], isUnique: true),
            Index(name: "user", columns: ["user_id"], isUnique: false),
        ])

    /// The columns added to an existing table: space for marks beside the user's own columns. They
    /// are nullable, so that programs which insert without naming them keep working.
    package static let additions = [
        column("registered_at", timeOrNull), column("invalidated_at", timeOrNull),
        column("invalid_reason", shortOrNull),
    ]

    /// One row per run of this program.
    package static let run = PushsweepTable(
        name: "pushsweep_run",
        columns: [
            column("id", uuid), column("kind", word), column("started", time),
            column("ended", timeOrNull),
            Column("host", "VARCHAR(255) NOT NULL", "TEXT NOT NULL"),
            Column("counts", "LONGTEXT NULL", "TEXT NULL"),
            Column("guard_result", "VARCHAR(255) NULL", "TEXT NULL"),
            Column("operator", "VARCHAR(255) NULL", "TEXT NULL"),
        ],
        primaryKey: ["id"])

    /// The name that the table of batches had in earlier builds, in a layout that this one does not read.
    package static let formerBatch = "pushsweep_feed"

    /// One row per batch of reports: where they came from, its state (see `BatchState`), how far it is judged, and how
    /// many of its reports had each outcome. Other tables name it by `number`, people by `name`, a UUID. `app_name` is
    /// the app in the settings; `app` too while it waits, and the value of the table's rows once it is judged. The row
    /// changes in the transaction of every chunk, so it is right after any crash. The guard reads 30 days of it, without
    /// the rows that an undo made living again (`taken_back` of its parts).
    package static let batch = PushsweepTable(
        name: "pushsweep_batch",
        columns: [
            numbered("number"), column("name", uuid),
            column("run", uuid), column("app", word), column("environment", word),
            column("source", word),
            Column("last_token", "BLOB NULL", "BLOB NULL"),
            column("applied", number), column("already", number), column("newer", number),
            column("unknown_tokens", number), column("refused", number),
            column("invalidated", number),
            Column("state", "VARCHAR(16) NOT NULL", "TEXT NOT NULL"),
            column("changed_at", timeOrNull),
        ] + batchColumns,
        primaryKey: ["number"],
        indexes: [
            Index(name: "name", columns: ["name"], isUnique: true),
            Index(
                name: "removals",
                columns: ["app", "environment", "changed_at", "invalidated"],
                isUnique: false),
            Index(name: "open", columns: ["state", "trimmed", "changed_at"], isUnique: false),
        ])

    /// One row per part of a run: what it changes by one batch under one mapping, or, of an undo, in one app and
    /// environment, and then `batch` is empty. The ledger names it by its number. `app` is the value of the table's rows.
    /// `key_columns` are the columns by which the ledger names the rows, with those of the token and the mark, and
    /// `mapping` is the digest of the mapping: the reports of a batch were judged under all that its parts name.
    /// `rows_changed` of a batch's part are those in the ledger, `rows_refused` those that refused their change, and
    /// `taken_back` those that an undo made living again.
    package static let part = PushsweepTable(
        name: "pushsweep_part",
        columns: [
            numbered("number"), column("run", uuid),
            Column("batch", "BIGINT NULL", "INTEGER NULL"),
            column("app", word), column("environment", word), column("source", word),
            Column("table_name", "VARCHAR(129) NOT NULL", "TEXT NOT NULL"),
            Column("key_columns", "VARCHAR(255) NOT NULL", "TEXT NOT NULL"),
            Column("mapping", "CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NULL", "TEXT NULL"),
            column("rows_changed", number), column("rows_refused", number),
            column("taken_back", number),
        ],
        primaryKey: ["number"],
        indexes: [
            Index(name: "run", columns: ["run"], isUnique: false),
            Index(name: "batch", columns: ["batch"], isUnique: false),
        ])

    /// One row per batch that was ever held or discarded: since when it waits for a person, by which gate and why, and
    /// what he decided. `decision` is his reason for a discard, `terms` the digest of what a release would do that he
    /// saw, and `released_as` the digest of the set that he released; both are empty where he did not.
    package static let hold = PushsweepTable(
        name: "pushsweep_hold",
        columns: [
            column("batch", numberOfOther), column("held_at", timeOrNull),
            Column("gate", "VARCHAR(32) NULL", "TEXT NULL"),
            Column("cause", "VARCHAR(1024) NULL", "TEXT NULL"),
            Column("decision", "VARCHAR(1024) NULL", "TEXT NULL"),
            column("terms", digestOrNull), column("released_as", digestOrNull),
        ],
        primaryKey: ["batch"])

    /// What a batch has besides its checkpoint. `heard_at` is when its first report was heard, by the database's clock,
    /// NULL where nobody knows. `reports` counts what is or was in `pushsweep_report`, `quarantined` what could not be
    /// used. `asked_at` is when a person released, replayed, imported again or discarded it. `intake` is the name of the
    /// imported content that brought it, `origin` the batch that a replay judges again, `moved_to` the batch into which
    /// those moved that found no row. `trimmed` says what the end of its time removed: 1 its reports about dead rows,
    /// 2 all.
    private static let batchColumns = [
        Column("inlet", "VARCHAR(16) NOT NULL", "TEXT NOT NULL"),
        Column("label", "VARCHAR(1024) NULL", "TEXT NULL"),
        Column("host", "VARCHAR(255) NULL", "TEXT NULL"),
        column("opened_at", timeOrNull), column("heard_at", timeOrNull),
        Column("ending", "VARCHAR(16) NULL", "TEXT NULL"),
        Column("detail", "VARCHAR(1024) NULL", "TEXT NULL"),
        Column("app_name", "VARCHAR(64) NULL", "TEXT NULL"), column("asked_at", timeOrNull),
        Column("moved_to", "VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL", "TEXT NULL"),
        Column("origin", "VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL", "TEXT NULL"),
        Column("intake", "VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL", "TEXT NULL"),
        Column("reports", "BIGINT NOT NULL", "INTEGER NOT NULL"), column("quarantined", number),
        column("out_of_bounds", number), column("bytes", number),
        column("quarantined_bytes", number), column("removed", number),
        Column("trimmed", "SMALLINT NOT NULL DEFAULT 0", "INTEGER NOT NULL DEFAULT 0"),
    ]

    /// One row per report: what APNs said against one token, and what became of it (`ReportState`). The
    /// reports of a token in one batch are numbered from 0, in any order. Reason, app and environment
    /// are those of the batch. `changed_at` is when it was decided, and before that `evidence_at`: a server
    /// rewrites a row whose columns change their lengths, which made the decision of a chunk five times as dear
    /// where the column was empty at first.
    package static let report = PushsweepTable(
        name: "pushsweep_report",
        columns: [
            column("batch", numberOfOther),
            Column("token", "VARBINARY(1024) NOT NULL", "BLOB NOT NULL"),
            Column("number", "INT NOT NULL", "INTEGER NOT NULL"),
            column("evidence_at", time),
            Column("state", "SMALLINT NOT NULL DEFAULT 0", "INTEGER NOT NULL DEFAULT 0"),
            Column("refusal", "VARCHAR(32) NULL", "TEXT NULL"),
            column("changed_at", time),
        ],
        primaryKey: ["batch", "token", "number"],
        indexes: [Index(name: "token", columns: ["token"], isUnique: false)],
        isClustered: true)

    /// One row per token of an app and environment that APNs called bad and that a row of the token table has.
    /// It marks nothing. `reason` is that of the latest report, `changed_at` when one was last heard. `accepted_at` is when
    /// APNs last knew the token of this app and environment, as far as it was heard: a later time than `last_at` clears
    /// the suspicion. `elsewhere` is what APNs last said of it in the other environment, at `elsewhere_at`: `Accepted`, or
    /// the reason of a refusal. `mapping` is the digest of the mapping under which the token was last called bad.
    package static let suspect = PushsweepTable(
        name: "pushsweep_suspect",
        columns: [
            Column("token", "VARBINARY(1024) NOT NULL", "BLOB NOT NULL"),
            column("app", word), column("environment", word), column("reason", word),
            column("first_at", time), column("last_at", time), column("times", number),
            column("changed_at", time), column("accepted_at", timeOrNull),
            Column("elsewhere", "VARCHAR(64) NULL", "TEXT NULL"),
            column("elsewhere_at", timeOrNull),
            Column("mapping", "CHAR(16) CHARACTER SET ascii COLLATE ascii_bin NULL", "TEXT NULL"),
        ],
        primaryKey: ["token", "app", "environment"], isClustered: true)

    /// One row per token about which a person said no: he undid a change of it or discarded evidence about it.
    /// `until_at` is the latest evidence that he did not want, `undone_at` when an undo last left its row living,
    /// `heard_until` when he last discarded such evidence, both by the database's clock; see `SparedTokens`.
    /// `by_run` is the run that said it last. A note ends after 400 days, or when he asks for the evidence.
    package static let spared = PushsweepTable(
        name: "pushsweep_spared",
        columns: [
            Column("token", "VARBINARY(1024) NOT NULL", "BLOB NOT NULL"),
            column("app", word), column("environment", word), column("until_at", time),
            column("heard_until", timeOrNull), column("undone_at", timeOrNull),
            column("by_run", uuid),
        ],
        primaryKey: ["token"], isClustered: true)

    /// One row per part of a batch that is no usable report: a line of a file, a row of `pushsweep_evidence`, or
    /// bytes of a gateway's list. `place` is the number of the line or row, or the offset of the first byte.
    /// `bytes` are the first 8,192 of `length`.
    package static let quarantine = PushsweepTable(
        name: "pushsweep_quarantine",
        columns: [
            column("batch", numberOfOther), column("place", number), column("length", number),
            Column("reason", "VARCHAR(1024) NOT NULL", "TEXT NOT NULL"),
            Column("bytes", "VARBINARY(8192) NOT NULL", "BLOB NOT NULL"),
            Column("token", "VARBINARY(1024) NULL", "BLOB NULL"),
        ],
        primaryKey: ["batch", "place"],
        indexes: [Index(name: "token", columns: ["token"], isUnique: false)],
        isClustered: true)

    /// The ledger, one row per changed row: the action, the before-image, and the time by the
    /// database's clock. Rows that refused a change have numbers below 0, and the reason in place of
    /// the before-image. The row's token and its state after the change are for followers. The index
    /// finds the entries of one token, also where its row is gone.
    package static let change = PushsweepTable(
        name: "pushsweep_change",
        columns: [
            column("part", numberOfOther), column("seq", number),
            Column("action", "VARCHAR(16) NOT NULL", "TEXT NOT NULL"),
            Column("row_key", "VARCHAR(\(longestKey)) NOT NULL", "TEXT NOT NULL"),
            Column("before_image", "LONGTEXT NULL", "TEXT NULL"),
            column("evidence_at", time), column("source", word), column("changed_at", time),
            Column("token", "VARBINARY(1024) NULL", "BLOB NULL"),
            Column("state", "VARCHAR(8) NULL", "TEXT NULL"),
        ],
        primaryKey: ["part", "seq"],
        indexes: [Index(name: "token", columns: ["token"], isUnique: false)])

    /// The order in which entries of the ledger were committed: one row per transaction and part of
    /// a run, numbered without gaps, with the entries that it wrote. The row with number 0 is the
    /// counter, with the identity of the database in place of a run; see `ChangeOrder`.
    package static let commit = PushsweepTable(
        name: "pushsweep_commit",
        columns: [
            Column("number", "BIGINT NOT NULL", "INTEGER NOT NULL"),
            column("run", uuid), column("part", numberOfOther),
            column("app", word), column("environment", word), column("source", word),
            column("first_seq", number), column("last_seq", number),
            column("committed_at", time),
        ],
        primaryKey: ["number"])

    /// Marks on tokens whose table has no mark column.
    package static let invalid = PushsweepTable(
        name: "pushsweep_invalid",
        columns: [
            column("app", word), column("environment", word),
            Column("token", "VARBINARY(1024) NOT NULL", "BLOB NOT NULL"),
            column("invalidated_at", time), column("reason", shortOrNull),
        ],
        primaryKey: ["token", "app", "environment"])

    /// The lease of the run that reads lists and applies evidence, across hosts.
    package static let lease = PushsweepTable(
        name: "pushsweep_lease",
        columns: [
            column("name", word), Column("owner", "VARCHAR(255) NULL", "TEXT NULL"),
            column("fence", number), column("expires_at", timeOrNull),
        ],
        primaryKey: ["name"])

    /// Answers of APNs that other senders report. They need INSERT and no other right. Times of
    /// TIMESTAMP are right whatever zone the inserting session has.
    package static let evidence = PushsweepTable(
        name: "pushsweep_evidence",
        columns: [
            ownNumber,
            column("app", word),
            ownEnvironment,
            Column("device_token", "VARBINARY(1024) NOT NULL", "TEXT NOT NULL"),
            Column("status", "SMALLINT NOT NULL DEFAULT 410", "INTEGER NOT NULL DEFAULT 410"),
            Column("reason", "VARCHAR(64) NULL", "TEXT NULL"),
            Column("timestamp_ms", "BIGINT NULL", "INTEGER NULL"),
            Column("sent_at", "TIMESTAMP(3) NULL DEFAULT NULL", "TEXT NULL"),
            Column(
                "created_at", "TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)",
                "TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))"),
        ],
        primaryKey: ["id"])

    /// One row per transaction that took rows out of `pushsweep_evidence`, or per imported file. It
    /// tells for ever whether the evidence changed hands; see `EvidenceIntake`. Of a file it has how much of it was
    /// read up to the end of its last whole record, with the digest of that and of its beginning; see `TakenContent`.
    package static let intake = PushsweepTable(
        name: "pushsweep_intake",
        columns: [
            column("id", uuid), column("run", uuid), column("source", word),
            Column("state", "VARCHAR(8) NOT NULL", "TEXT NOT NULL"), column("reports", number),
            column("taken_at", time), column("evidence", number), column("suspects", number),
            column("other", number), column("quarantined", number),
            Column("length", "BIGINT NULL", "INTEGER NULL"), column("digest", digestOrNull),
            column("head", digestOrNull),
        ],
        primaryKey: ["id"],
        indexes: [Index(name: "head", columns: ["head", "taken_at"], isUnique: false)])

    /// What became of the evidence, by day in UTC, app, environment and source. A purge enters the
    /// counts of each checkpoint that it drops, so the history of audits outlives the records.
    package static let day = PushsweepTable(
        name: "pushsweep_day",
        columns: [
            Column(
                "day", "CHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL", "TEXT NOT NULL"),
            column("app", word), column("environment", word), column("source", word),
            column("applied", number), column("already", number), column("newer", number),
            column("unknown_tokens", number), column("refused", number),
        ],
        primaryKey: ["day", "app", "environment", "source"])

    /// The tables that this program keeps beside the user's.
    package static let sideTables = [
        run, batch, hold, part, change, commit, invalid, lease, evidence, intake, day, report,
        suspect, spared,
        quarantine,
    ]
}
