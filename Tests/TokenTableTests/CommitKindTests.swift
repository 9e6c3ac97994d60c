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
        // A ledger on the shards commits shard by shard, so it keeps nothing safely.
        let isLocal = ["ROCKSDB", "INNODB"].contains(name.uppercased())
        #expect(CommitKind(engine, ledger: engine) == (isLocal ? .together : .never))
    }

    @Test("SQLite, and a ledger that the account does not see, leave the kind to the table")
    func unknown() {
        #expect(CommitKind(nil, ledger: nil) == .together)
        #expect(CommitKind(Self.innodb, ledger: nil) == .together)
        #expect(
            CommitKind(CatalogEngine(name: "SPIDER", hasTransactions: true), ledger: nil) == .apart)
    }

    @Test("a table apart from its ledger is used, and a ledger on other servers is refused")
    func findings() {
        let spider = CatalogEngine(name: "SPIDER", hasTransactions: true)
        let table = CatalogTable(
            name: TableName(name: "devices"), canonicalName: "devices", columns: [], indexes: [],
            engine: spider)
        let removal = TableUse.apply(RemovalPolicy(action: .delete))
        func finding(_ ledger: CatalogEngine) -> StoreFinding? {
            TokenTable.commitFindings(table, ledger: ledger, removal).first
        }
        let apart = finding(Self.innodb)
        #expect(apart?.severity == .ok)
        #expect(
            apart?.sentence.hasPrefix(
                "the rows of devices are in the engine SPIDER and the change ledger is in InnoDB")
                == true)
        #expect(finding(spider)?.failure?.code == .configuration)
        #expect(
            finding(spider)?.sentence.contains("ALTER TABLE pushsweep_change ENGINE=InnoDB") == true
        )
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
