import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Commits of rows and ledger")
struct CommitKindTests {
    private static let innodb = CatalogEngine(name: "InnoDB", hasTransactions: true)

    @Test(
        "rows commit together with the ledger only in its own engine on its own server",
        arguments: [
            ("InnoDB", true, CommitKind.together), ("innodb", true, .together),
            ("SPIDER", true, .apart), ("FEDERATED", true, .apart), ("ROCKSDB", true, .apart),
            ("MyISAM", false, .never), ("Aria", false, .never), ("MEMORY", false, .never),
            ("CSV", false, .never), ("S3", false, .never), ("CONNECT", false, .never),
        ])
    func kinds(_ name: String, _ hasTransactions: Bool, _ kind: CommitKind) {
        let engine = CatalogEngine(name: name, hasTransactions: hasTransactions)
        #expect(CommitKind(engine, ledger: Self.innodb) == kind)
        // Where the ledger is on the shards too, each shard commits by itself.
        let same = CommitKind(engine, ledger: engine)
        #expect(same == (name == "ROCKSDB" ? .together : kind))
        #expect(kind.allowsRemoval == (kind == .together))
    }

    @Test("SQLite, and a ledger that the account does not see, leave the kind to the table")
    func unknown() {
        #expect(CommitKind(nil, ledger: nil) == .together)
        #expect(CommitKind(Self.innodb, ledger: nil) == .together)
        #expect(
            CommitKind(CatalogEngine(name: "SPIDER", hasTransactions: true), ledger: nil) == .apart)
    }

    @Test("where rows and ledger commit apart, rows are marked with a warning and never removed")
    func findings() {
        let table = CatalogTable(
            name: TableName(name: "devices"), canonicalName: "devices", columns: [], indexes: [],
            engine: CatalogEngine(name: "SPIDER", hasTransactions: true))
        func finding(_ use: TableUse) -> StoreFinding? {
            TokenTable.commitFindings(table, ledger: Self.innodb, use).first
        }
        let marking = finding(.apply(RemovalPolicy()))
        #expect(marking?.severity == .warning)
        for policy in [
            RemovalPolicy(action: .delete),
            RemovalPolicy(action: .delete, deletesAfter: 86_400_000),
        ] {
            let failure = finding(.apply(policy))?.failure
            #expect(failure?.code == .configuration)
            #expect(
                failure?.sentence.hasPrefix(
                    "the rows of devices are in the engine SPIDER and the change ledger is in InnoDB"
                )
                    == true)
            #expect(failure?.sentence.contains("set policy.action to mark") == true)
        }
        #expect(finding(.undo(actions: ["insert"], isDry: false))?.failure != nil)
        #expect(finding(.undo(actions: ["mark"], isDry: false))?.severity == .warning)
    }

    @Test(
        "a ledger in another engine than the rows is found before the first change",
        .enabled(if: MariaDBServer.isAvailable, Comment(rawValue: MariaDBServer.absence)))
    func reads() throws {
        let database = try TokenDatabase(.mariaDB)
        try database.createOwnSchema()
        let catalog = Catalog(connection: database.sql)
        #expect(try catalog.engine(TableName(name: "pushsweep_change")) == Self.innodb)
        #expect(try catalog.engine(TableName(name: "no_such_table")) == nil)
        try database.store().preflight(.apply(RemovalPolicy(action: .delete)))
    }
}
