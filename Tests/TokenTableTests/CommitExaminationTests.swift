import Findings
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import TokenTable

@Suite("Commits of rows and ledger")
struct CommitExaminationTests {
    private static let innodb = CatalogEngine(name: "InnoDB", hasTransactions: true)

    private static func finding(_ engine: CatalogEngine?, _ ledger: CatalogEngine?) -> Finding? {
        TokenTable.commitFinding(
            CatalogTable(
                name: TableName(name: "devices"), canonicalName: "devices", columns: [],
                indexes: [],
                engine: engine), ledger: ledger)
    }

    @Test(
        "a table whose rows do not commit together with the ledger is refused with 78",
        arguments: [
            ("SPIDER", true), ("FEDERATED", true), ("ROCKSDB", true), ("MyISAM", false),
            ("Aria", false), ("MEMORY", false), ("CSV", false), ("S3", false), ("CONNECT", false),
        ])
    func refused(_ name: String, _ hasTransactions: Bool) throws {
        let engine = CatalogEngine(name: name, hasTransactions: hasTransactions)
        let failure = try #require(Self.finding(engine, Self.innodb)?.failure)
        #expect(failure.code == .configuration)
        #expect(failure.sentence.contains("ENGINE=InnoDB"), "\(failure.sentence)")
        // A ledger on other servers, or without transactions, keeps nothing safely.
        let ledger = Self.finding(Self.innodb, engine)?.failure
        #expect(ledger?.code == .configuration)
    }

    @Test("one engine with transactions for both is taken, and one that is not known")
    func together() {
        let lower = CatalogEngine(name: "innodb", hasTransactions: true)
        let rocks = CatalogEngine(name: "ROCKSDB", hasTransactions: true)
        #expect(Self.finding(Self.innodb, lower) == nil)
        #expect(Self.finding(rocks, rocks) == nil)
        #expect(Self.finding(Self.innodb, nil) == nil)
        #expect(Self.finding(nil, nil) == nil)
        let spider = CatalogEngine(name: "SPIDER", hasTransactions: true)
        #expect(Self.finding(spider, nil) != nil && Self.finding(spider, spider) != nil)
    }

    @Test("the engine of the ledger is read before the first change", .needsServer)
    func reads() throws {
        let database = try TokenDatabase.own(.mariaDB)
        let catalog = Catalog(connection: database.sql)
        #expect(try catalog.engine(TableName(name: "pushsweep_change")) == Self.innodb)
        #expect(try catalog.engine(TableName(name: "no_such_table")) == nil)
        try database.store().require(.apply(RemovalPolicy(action: .delete)))
    }
}
