import APNsProtocol
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

@Suite("Examination of the queue")
struct QueueExaminationTests {
    @Test("our own schema passes, and the tutorial's gives a warning", arguments: QueueCase.all)
    func findings(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase)
        let findings = try stage.database.store().requireQueue(.send, partitions: [chat])
        let warnings = findings.filter { $0.severity == .medium }.map(\.sentence)
        if queueCase.tables == .own {
            #expect(warnings.isEmpty)
            #expect(findings[0].sentence.contains("state in the row"))
            return
        }
        #expect(findings[0].sentence.contains("state in pushsweep_delivery"))
        #expect(warnings.contains { $0.contains("time_sent") && $0.contains("no index") })
        // SQLite has no limits of length.
        #expect(warnings.count == (queueCase.engine == .mariaDB ? 3 : 1))
    }

    @Test(
        "a column user_id that holds bytes is no column of users, unless the settings name it",
        .needsServer)
    func usersAsBytes() throws {
        let database = try TokenDatabase(.mariaDB)
        try database.createSideTables()
        try database.execute(
            "CREATE TABLE devices (user_id BINARY(16) PRIMARY KEY, device_token VARCHAR(100))")
        database.settings.mapping.table = "devices"
        let store = try database.store()
        #expect(try store.userColumn() == nil)
        let grants = try #require(try AccountGrants(database.settings, RemovalPolicy(), user: "u"))
        #expect(grants.jobs.contains { $0.name == "undo" })
        #expect(!grants.jobs.contains { $0.name.contains("--user") })
        let named = try database.store { $0.user = .named("user_id") }
        let failure = #expect(throws: StoreFailure.self) { try named.userColumn() }
        #expect(failure?.sentence.contains("correct store.active-users.user.column") == true)
    }

    @Test(
        "waiting rows of no app are named with their values and number, and the default that makes them",
        arguments: QueueCase.own)
    func rowsOfNoApp(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase, 0..<7)
        #expect(try stage.database.store().unownedRows([chat]) == nil)
        try stage.database.execute("UPDATE push_queue SET environment = '0' WHERE id > 5")
        try stage.database.execute("UPDATE push_queue SET app_id = 'chit' WHERE id = 1")
        // One that was sent is none of the waiting ones.
        try stage.database.execute(
            "UPDATE push_queue SET state = 'sent', answered_at = ? WHERE id = 7",
            [stage.database.time(start)])
        let found = try #require(try stage.database.store().unownedRows([chat]))
        #expect(found.count == 2)
        #expect(found.sentence.contains("2 waiting rows of push_queue belong to no app"))
        #expect(found.sentence.contains("app_id = 'chat', environment = '0' (1)"))
        #expect(found.sentence.contains("app_id = 'chit', environment = 'production' (1)"))
        #expect(found.cure.contains("app_id = 'chat', environment = 'production'"))
        // The most frequent first, whatever is missing in them.
        let (isServer, app) = (queueCase.engine == .mariaDB, "app_id = 'chit', environment")
        try stage.database.execute("UPDATE push_queue SET app_id = 'chit' WHERE id IN (1, 2, 3)")
        if isServer {
            try stage.database.execute("ALTER TABLE push_queue MODIFY app_id VARCHAR(255) NULL")
            try stage.database.execute("UPDATE push_queue SET app_id = NULL WHERE id IN (4, 5)")
        }
        let several = try #require(try stage.database.store().unownedRows([chat]))
        #expect(several.count == (isServer ? 6 : 4))
        let places = [
            "\(app) = 'production' (3)",
            isServer ? "app_id = NULL, environment = 'production' (2)" : nil,
            "app_id = 'chat', environment = '0' (1)",
        ].compactMap { $0 }.map { several.sentence.range(of: $0)?.lowerBound }
        #expect(
            !places.contains(nil) && places.compactMap { $0 } == places.compactMap { $0 }.sorted(),
            "\(several.sentence)")
        try stage.database.execute("UPDATE push_queue SET app_id = 'chat' WHERE id <> 1")
        // By a mapping that has another word all others belong to none, and so would each new row.
        let mapped = try stage.database.store {
            $0.environmentValues = ["production": "0", "sandbox": "1"]
        }
        #expect(try mapped.unownedRows([chat])?.count == 5)
        let warnings = try mapped.examineQueue(.send, partitions: [chat])
            .filter { $0.severity == .medium }.map(\.sentence)
        #expect(
            warnings.contains { $0.contains("column environment") && $0.contains("look for '0'") })
        guard queueCase.engine == .mariaDB else { return }
        let sentence = try #require(warnings.first { $0.contains("ALTER TABLE") })
        let statement = try #require(sentence.components(separatedBy: "; ").last)
        try stage.database.sql.run(statement)
        #expect(
            try !mapped.examineQueue(.send, partitions: [chat]).map(\.sentence)
                .contains { $0.contains("ALTER TABLE") })
    }

    @Test(
        "an empty text as the default of the environment is told as one, which no app sends",
        arguments: QueueCase.own)
    func emptyDefault(_ queueCase: QueueCase) throws {
        let database = try QueueStage(queueCase).database
        if queueCase.engine == .mariaDB {
            try database.execute("ALTER TABLE push_queue ALTER COLUMN environment SET DEFAULT ''")
        } else {
            let made = try database.texts("SELECT sql FROM sqlite_master WHERE name = 'push_queue'")
            try database.execute("DROP TABLE push_queue")
            try database.execute(
                made[0][0].replacing("DEFAULT 'production'", with: "DEFAULT ''"))
        }
        let said = try database.store().examineQueue(.send, partitions: [chat]).map(\.sentence)
            .filter { $0.contains("inserted without it") }
        #expect(said.count == 1, "\(said)")
        #expect(said.allSatisfy { $0.contains("is '' in a row") }, "\(said)")
    }

    @Test(
        "a queue that schema apply makes has the mapping's word, so a row without an environment is sent",
        arguments: TestEngine.available)
    func mappedDefault(_ engine: TestEngine) throws {
        for words in [
            ["production": "0", "sandbox": "1"], ["production": "the App's own, 'live'"],
        ] {
            let database = try TokenDatabase(engine)
            database.settings.mapping.environmentValues = words
            database.settings.wantsQueue = true
            let store = try database.store()
            try store.applySchema(upgrading: false)
            try database.execute(
                "INSERT INTO push_queue (app_id, device_token, payload) VALUES ('chat', ?, '{}')",
                [.bytes(DeviceToken.numbered(1).bytes)])
            #expect(try database.store().unownedRows([chat]) == nil)
            #expect(
                try !store.examineQueue(.send, partitions: [chat]).map(\.sentence)
                    .contains { $0.contains("inserted without it") })
            guard engine == .mariaDB else { continue }
            let formats = try database.texts(
                "SELECT DISTINCT CREATE_OPTIONS FROM information_schema.TABLES "
                    + "WHERE TABLE_SCHEMA = DATABASE()")
            // Whatever the server's default is: some of our keys need it.
            #expect(formats.allSatisfy { $0[0].lowercased().contains("row_format=dynamic") })
        }
    }

    @Test(
        "a trigger that may write a column of results is refused, since rows would be sent again",
        arguments: QueueCase.all)
    func triggers(_ queueCase: QueueCase) throws {
        let stage = try QueueStage(queueCase)
        let column = queueCase.tables == .own ? "state" : "time_sent"
        func make(_ column: String) throws {
            try stage.database.execute(
                queueCase.engine == .mariaDB
                    ? "CREATE TRIGGER back BEFORE UPDATE ON push_queue FOR EACH ROW "
                        + "SET NEW.\(column) = OLD.\(column)"
                    : "CREATE TRIGGER back AFTER UPDATE ON push_queue BEGIN UPDATE push_queue "
                        + "SET \(column) = OLD.\(column) WHERE \(stage.key) = NEW.\(stage.key); END"
            )
        }
        try make("payload")
        let store = try stage.database.store()
        try store.requireQueue(.send, partitions: [chat])
        try stage.database.execute("DROP TRIGGER back")
        try make(column)
        let failure = #expect(throws: StoreFailure.self) {
            try store.requireQueue(.send, partitions: [chat])
        }
        #expect(failure?.code == .configuration)
        #expect(failure?.sentence.contains("trigger back of push_queue may write column") == true)
    }

    @Test(
        "a column of results that the database computes is refused before anything is sent",
        arguments: TestEngine.available)
    func computed(_ engine: TestEngine) throws {
        let stage = try QueueStage(QueueCase(engine: engine, tables: .tutorial))
        try stage.database.execute("DROP TABLE push_queue")
        let key = engine == .mariaDB ? "INTEGER AUTO_INCREMENT PRIMARY KEY" : "INTEGER PRIMARY KEY"
        try stage.database.execute(
            "CREATE TABLE push_queue (message_id \(key), device_token VARCHAR(64), "
                + "payload VARCHAR(256), time_queued DATETIME, done DATETIME, "
                + "time_sent DATETIME AS (done))")
        let failure = #expect(throws: StoreFailure.self) {
            try stage.database.store().requireQueue(.send, partitions: [chat])
        }
        #expect(failure?.code == .configuration)
        #expect(failure?.sentence.contains("column time_sent is computed from others") == true)
    }

    @Test("an upgrade adds the index that finds open rows, once", arguments: TestEngine.available)
    func upgrade(_ engine: TestEngine) throws {
        let stage = try QueueStage(QueueCase(engine: engine, tables: .tutorial))
        let store = try stage.database.store()
        #expect(try store.missingSchema(upgrading: false).statements.isEmpty)
        let script = try store.applySchema(upgrading: true)
        #expect(script.statements.contains { $0.contains("pushsweep_open") })
        #expect(try store.missingSchema(upgrading: true).statements.isEmpty)
        let warnings = try store.examineQueue(.send, partitions: [chat]).filter {
            $0.severity == .medium
        }
        #expect(!warnings.contains { $0.sentence.contains("no index") })
    }

    @Test("two apps cannot share rows that have no column for the app")
    func sharedRows() throws {
        let stage = try QueueStage(QueueCase(engine: .sqlite, tables: .tutorial))
        let failure = #expect(throws: StoreFailure.self) {
            try stage.database.store().requireQueue(
                .send, partitions: [chat, Partition(app: "news", environment: "production")])
        }
        #expect(failure?.code == .configuration)
        #expect(failure?.sentence.contains("--app") == true)
    }

    @Test("state columns are used all or none, and one named alone is refused")
    func stateColumns() throws {
        let stage = try QueueStage(QueueCase(engine: .sqlite, tables: .own))
        var settings = stage.database.settings
        settings.queue.reason = .absent
        #expect(try TokenTable(settings).queueLayout().delivery.isInRow == false)
        settings.queue.state = .named("state")
        let failure = #expect(throws: StoreFailure.self) {
            try TokenTable(settings).queueLayout()
        }
        #expect(failure?.sentence.contains("none for reason") == true)
    }

    @Test(
        "columns for the state that were added after rows were sent are refused until their results are there",
        arguments: TestEngine.available)
    func addedColumns(_ engine: TestEngine) throws {
        let stage = try QueueStage(QueueCase(engine: engine, tables: .own))
        let store = try stage.database.store()
        func obstacle() throws -> Finding? {
            try store.examineQueue(.send, partitions: [chat]).first {
                $0.failure?.code == .configuration
            }
        }
        func left(in queue: String) throws {
            try stage.database.execute(
                "INSERT INTO pushsweep_delivery (queue, queue_key, state, attempts) "
                    + "VALUES ('\(queue)', 1, 'unknown', 1)")
        }
        try left(in: "another")
        #expect(try obstacle() == nil)
        let own = try store.queueTable().canonicalName
        try left(in: own)
        let sentence = try obstacle()?.sentence ?? ""
        #expect(sentence.contains("would be sent again"), "\(sentence)")
        #expect(sentence.contains("DELETE FROM pushsweep_delivery WHERE queue = '\(own)'"))
        try stage.database.execute("DELETE FROM pushsweep_delivery WHERE queue = '\(own)'")
        #expect(try obstacle() == nil)
    }

    @Test("a missing table is named with the remedy", arguments: TestEngine.available)
    func missingTables(_ engine: TestEngine) throws {
        let stage = try QueueStage(QueueCase(engine: engine, tables: .tutorial))
        try stage.database.sql.run("DROP TABLE pushsweep_delivery")
        let failure = #expect(throws: StoreFailure.self) {
            try stage.database.store().requireQueue(.send, partitions: [chat])
        }
        #expect(failure?.code == .configuration)
        #expect(failure?.sentence.contains("schema apply") == true)
    }

    @Test(
        "the printed grants suffice, and each missing one is named",
        .needsServer,
        arguments: QueueTables.allCases)
    func grants(_ tables: QueueTables) throws {
        let stage = try QueueStage(QueueCase(engine: .mariaDB, tables: tables))
        try stage.register(0..<5)
        let store = try stage.database.store()
        let others = try store.grants(for: RemovalPolicy())
        let sending = try store.queueGrants(for: .send)
        for missing in -1..<sending.count {
            let account = try ServerAccount(of: stage.database)
            func grant(_ grants: [String]) throws {
                try account.run(
                    grants.map { "\($0.split(separator: " TO ")[0]) TO '\(account.name)'@'%'" })
            }
            // The rights of a sweep; reading the token table is one of them.
            try grant(others)
            guard missing >= 0 else {
                try grant(sending)
                try stage.enqueue(0..<5)
                try Self.sendAll(TokenTable(account.settings))
                continue
            }
            try grant(sending.enumerated().filter { $0.offset != missing }.map(\.element))
            let failure = #expect(throws: StoreFailure.self, "without \(sending[missing])") {
                try TokenTable(account.settings).requireQueue(.send, partitions: [chat])
            }
            let right = sending[missing].split(separator: " TO ")[0]
            let sentence = failure?.sentence ?? ""
            #expect(
                sentence.contains(right) || sentence.contains("or is not there")
                    || sentence.contains("may see") || sentence.contains("may not read its column"),
                "\(sentence)")
        }
    }

    /// Everything a sender does.
    private static func sendAll(_ store: TokenTable) throws {
        for need in [QueueUse.preview, .send] {
            try store.requireQueue(need, partitions: [chat])
        }
        let queue = try PushQueue(store, QueueLease(run: "r", host: "h"))
        for outcome: Outcome in [.retry(seconds: 0, reason: "x"), .sent] {
            var claim = try #require(try queue.claim())
            #expect(try queue.handOver(claim))
            #expect(try queue.record(claim.results(outcome), of: &claim) == 0)
        }
        _ = try queue.renewLeases()
        _ = try queue.reclaimExpired(resendUnknown: true)
        #expect(try queue.claim() == nil)
    }

    @Test(
        "a queue in which nothing is written needs no sight of its triggers, which may write what they like",
        .needsServer)
    func unwritten() throws {
        let stage = try QueueStage(QueueCase(engine: .mariaDB, tables: .tutorial))
        stage.database.settings.queue.sentAt = .absent
        let account = try ServerAccount(of: stage.database)
        var settings = account.settings
        settings.queue.sentAt = .absent
        let store = try stage.database.store()
        let user = "\(account.name)@%"
        let sending = try store.queueGrants(for: .send, user: user)
        #expect(!sending.contains { $0.contains("TRIGGER") })
        try account.run(store.grants(for: RemovalPolicy(), user: user) + sending)
        try TokenTable(settings).requireQueue(.send, partitions: [chat])
        try stage.database.execute(
            "CREATE TRIGGER back BEFORE UPDATE ON push_queue FOR EACH ROW "
                + "SET NEW.time_sent = OLD.time_sent")
        try store.requireQueue(.send, partitions: [chat])
    }

    @Test(
        "a dry run needs no right but SELECT",
        .needsServer,
        arguments: QueueTables.allCases)
    func readingAccount(_ tables: QueueTables) throws {
        let stage = try QueueStage(QueueCase(engine: .mariaDB, tables: tables))
        try stage.register(0..<5)
        try stage.enqueue(0..<7)
        let account = try ServerAccount(of: stage.database)
        let grants = try stage.database.store().queueGrants(
            for: .preview, user: "\(account.name)@%")
        #expect(grants.allSatisfy { $0.hasPrefix("GRANT SELECT") })
        try account.run(grants)
        try account.grant(on: "active_users")
        let store = try TokenTable(account.settings)
        let findings = try store.requireQueue(.preview, partitions: [chat])
        #expect(!findings.contains { $0.severity == .medium && $0.sentence.contains("may not") })
        let preview = try stage.preview(by: store)
        #expect(preview.sendable == 5 && preview.skipped == [.unknown: 2])
        // Claimed rows are not due; an account that may not see claims gets a warning.
        let queue = try PushQueue(stage.database.store(), QueueLease(run: "r", host: "h"))
        _ = try #require(try queue.claim())
        let busy = try stage.preview(by: store)
        #expect(busy.sendable == 0 && busy.skipped.isEmpty)
        try account.run([
            "REVOKE SELECT ON \(account.database).pushsweep_claim FROM '\(account.name)'@'%'"
        ])
        let blind = try store.requireQueue(.preview, partitions: [chat])
        #expect(
            blind.contains {
                $0.severity == .medium && $0.sentence.contains("may not read pushsweep_claim")
                    && $0.sentence.contains("GRANT SELECT ON ")
            }, "\(blind)")
    }
}
