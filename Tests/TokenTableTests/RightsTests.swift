import APNsProtocol
import Database
import Findings
import Foundation
import TestSupport
import Testing
import TokenHygiene
import TokenTable

@Suite("Rights of the account", .needsServer)
struct RightsTests {
    private static let policies = [
        RemovalPolicy(), RemovalPolicy(action: .delete),
        RemovalPolicy(action: .delete, deletesAfter: 86_400_000),
    ]

    private static let expiry = GraceEnd.afterAWeek(at: start)

    private static func schemas() -> [(String, (TokenDatabase) throws -> Void)] {
        [
            ("own", { try $0.createOwnSchema() }),
            (
                "PushChat",
                {
                    try $0.createSideTables()
                    try $0.execute(
                        "CREATE TABLE active_users (udid varchar(40) PRIMARY KEY, device_token "
                            + "varchar(255) NOT NULL, nickname varchar(255), KEY (device_token))")
                }
            ),
        ]
    }

    private static func fill(_ database: TokenDatabase, _ schema: String) throws {
        if schema == "own" { return try database.register(0..<20, at: start) }
        for token in 0..<20 {
            try database.execute(
                "INSERT INTO active_users (udid, device_token) VALUES (?, ?)",
                [.text("udid\(token)"), .text(DeviceToken.numbered(token).hex)])
        }
    }

    @Test(
        "an account that sees all columns and may read none is told of GRANTs that the server takes"
    )
    func seesAndReadsNone() throws {
        for (name, schema) in Self.schemas() {
            let database = try TokenDatabase(.mariaDB)
            try schema(database)
            let account = try ServerAccount(of: database)
            try account.admin.run("GRANT REFERENCES ON *.* TO '\(account.name)'@'%'")
            // Each round runs what the refusal tells, as a person would.
            var failure: StoreFailure?
            for _ in 0..<4 {
                failure = nil
                do throws(StoreFailure) {
                    try TokenTable(account.settings).require(.apply(RemovalPolicy()))
                } catch {
                    failure = error
                }
                guard let told = failure?.description else { break }
                let grants = told.matches(of: /GRANT [^;]*? TO '[^']*'@'[^']*'/).map {
                    String($0.output)
                }
                guard !grants.isEmpty else { break }
                try account.run(grants)
            }
            let left = failure?.description ?? ""
            #expect(!left.contains("GRANT"), "\(name): \(left)")
        }
    }

    @Test("the printed grants suffice, and each missing one is named", arguments: policies)
    func exactGrants(_ policy: RemovalPolicy) throws {
        for (name, schema) in Self.schemas() {
            let database = try TokenDatabase(.mariaDB)
            try schema(database)
            try Self.fill(database, name)
            let account = try ServerAccount(of: database)
            let grants = try database.store().grants(for: policy, user: "\(account.name)@%")
            for missing in grants.indices {
                let holder = try ServerAccount(of: database)
                try holder.run(
                    grants.enumerated().filter { $0.offset != missing }.map {
                        $0.element.replacing(account.name, with: holder.name)
                    })
                let failure = #expect(throws: StoreFailure.self, "without \(grants[missing])") {
                    try TokenTable(holder.settings).require(.apply(policy))
                }
                #expect(
                    failure?.code == .permission || failure?.code == .configuration,
                    "\(failure as Any)")
                let right = grants[missing].split(separator: " TO ")[0]
                let isNamed = failure?.sentence.contains(right) == true
                let isHidden =
                    failure?.sentence.contains("may see") == true
                    || failure?.sentence.contains("may not read its column") == true
                    || failure?.sentence.contains("or is not there") == true
                #expect(isNamed || isHidden, "\(failure as Any)")
            }
            try account.run(grants)
            let store = try TokenTable(account.settings)
            let report = try store.require(.apply(policy))
            #expect(report.firstFailure == nil)
            let progress = try store.apply(
                (0..<30).map { .dead($0, at: start + 60_000) }, policy: policy)
            #expect(progress.counts == Counts(applied: 20, unknown: 10), "\(name)")
            try store.record("r")
        }
    }

    @Test("a GRANT UPDATE without one of its columns is named by the check, each column in turn")
    func eachUpdatedColumn() throws {
        let database = try TokenDatabase.own(.mariaDB)
        let account = try ServerAccount(of: database)
        let grants = try database.store().grants(for: RemovalPolicy(), user: account.name)
        let right = try #require(
            grants.first { $0.contains("`active_users`") && $0.contains("UPDATE (") }?
                .split(separator: " TO ").first)
        let list = try #require(right.firstMatch(of: /UPDATE \(([^)]*)\)/)?.1)
        let columns = list.split(separator: ", ")
        #expect(columns.count > 1, "\(right)")
        for column in columns {
            let holder = try ServerAccount(of: database)
            let others = columns.filter { $0 != column }.joined(separator: ", ")
            try holder.run(
                grants.map {
                    $0.replacing("UPDATE (\(list))", with: "UPDATE (\(others))")
                        .replacing(account.name, with: holder.name)
                })
            let failure = expectFailure(.permission) {
                try TokenTable(holder.settings).require(.apply(RemovalPolicy()))
            }
            #expect(
                failure?.sentence.contains(right) == true, "without \(column): \(failure as Any)")
        }
    }

    @Test("a follower needs SELECT on two tables and no other right, and a missing one is named")
    func followerGrants() throws {
        let database = try TokenDatabase.own(.mariaDB)
        try Self.fill(database, "own")
        try database.store().apply((0..<3).map { .dead($0, at: start + 60_000) })
        let account = try ServerAccount(of: database)
        try account.run([
            "GRANT SELECT ON \(database.name).pushsweep_change TO '\(account.name)'@'%'",
            "GRANT INSERT ON \(database.name).pushsweep_commit TO '\(account.name)'@'%'",
        ])
        let failure = #expect(throws: StoreFailure.self) {
            try TokenTable(account.settings).requireFollowing()
        }
        let grant = "GRANT SELECT ON `\(database.name)`.`pushsweep_commit`"
        #expect(failure?.code == .permission && failure?.sentence.contains(grant) == true)
        try account.run([
            "REVOKE INSERT ON \(database.name).pushsweep_commit FROM '\(account.name)'@'%'",
            "\(grant) TO '\(account.name)'@'%'",
        ])
        let store = try TokenTable(account.settings)
        try store.requireFollowing()
        var follower = try ChangeFollower(store.session, from: .time(EpochMilliseconds(0)))
        #expect(try follower.next().count == 3)
    }

    @Test("grants name the account as the server sees it and end without a semicolon")
    func grantedAccount() throws {
        let database = try TokenDatabase.own(.mariaDB)
        let account = try #require(
            try database.sql.query("SELECT CURRENT_USER()").scalar?.text?.split(separator: "@"))
        let store = try database.store()
        let grants = try store.grants(for: RemovalPolicy())
        #expect(!grants.isEmpty)
        #expect(grants.allSatisfy { $0.hasSuffix(" TO '\(account[0])'@'\(account[1])'") })
        let odd = try store.grants(for: RemovalPolicy(), user: "a@b'\u{301}@localhost")
        #expect(odd.allSatisfy { $0.hasSuffix(" TO `a@b'\u{301}`@'localhost'") }, "\(odd)")
        let bare = try store.grants(for: RemovalPolicy(), user: "pushsweep")
        #expect(bare.allSatisfy { $0.hasSuffix(" TO 'pushsweep'@'%'") })
        // Reports whose time is over are removed, and what a person said no to until he asks for it.
        let deleting = bare.filter { $0.contains("DELETE") }
        #expect(deleting.count == 4)
        #expect(
            deleting.allSatisfy {
                $0.firstMatch(of: /pushsweep_(report|spared|suspect|quarantine)/) != nil
            })
    }

    @Test("triggers that the account may not see are never taken for absent")
    func hiddenTriggers() throws {
        let database = try TokenDatabase.own(.mariaDB)
        try Self.fill(database, "own")
        try database.sql.run(
            "CREATE TRIGGER keep BEFORE UPDATE ON active_users FOR EACH ROW "
                + "SET NEW.invalidated_at = NULL")
        let right = "GRANT TRIGGER ON `\(database.name)`.`active_users`"
        let isShown = try database.store().session.describe().showsTriggers
        for isGranted in [true, false] {
            let account = try ServerAccount(of: database)
            let grants = try database.store().grants(
                for: RemovalPolicy(), user: account.name)
            #expect(grants.contains { $0.hasPrefix(right) } != isShown, "\(grants)")
            try account.run(grants.filter { isGranted || !$0.hasPrefix(right) })
            let store = try TokenTable(account.settings)
            let failure = try store.examine(.apply(RemovalPolicy())).firstFailure
            if isShown || isGranted {
                #expect(failure?.sentence.contains("trigger keep of active_users") == true)
            } else {
                #expect(failure?.code == .permission && failure?.sentence.contains(right) == true)
            }
            // Even a run that did not ask would read the triggers again, or the rows.
            expectFailure(.configuration, "nothing of this chunk was changed") {
                try store.apply((0..<30).map { .dead($0, at: start + 60_000) })
            }
            #expect(try database.marked == 0)
        }
    }

    @Test("a table whose marks are beside it is swept and taken back with SELECT only")
    func marksBeside() throws {
        let database = try TokenDatabase(.mariaDB)
        try Self.schemas()[1].1(database)
        try Self.fill(database, "PushChat")
        let account = try ServerAccount(of: database)
        let use = TableUse.undo(RemovalPolicy(), in: try database.store().layout())
        let grants =
            try database.store().grants(for: RemovalPolicy(), user: account.name)
            + RequiredPrivileges(
                use, try database.store().layout(), .mariaDB, database: database.name,
                readsTokenMarks: true
            ).grants(to: String(account.name))
        #expect(
            grants.filter { $0.contains("`active_users`") }.allSatisfy {
                $0.hasPrefix("GRANT SELECT (")
            }, "\(grants)")
        try account.run(grants)
        let store = try TokenTable(account.settings)
        try store.require(.apply(RemovalPolicy()))
        let progress = try store.apply(
            (0..<30).map { .dead($0, at: start + 60_000) }, run: "run")
        #expect(progress.counts == Counts(applied: 20, unknown: 10))
        try store.record("run")
        try store.require(use)
        let undone = try store.undo(.run("run"))
        #expect(undone.restored == 20, "\(undone)")
    }

    @Test("a column that is only hidden is a right that the account lacks, and not a wrong name")
    func hiddenColumns() throws {
        let database = try TokenDatabase.own(.mariaDB)
        let some = try ServerAccount(of: database)
        try some.run([
            "GRANT SELECT (id, device_token, environment, registered_at, invalidated_at) ON "
                + "\(database.name).active_users TO '\(some.name)'@'%'"
        ])
        some.settings.mapping.app = .named("app_id")
        let hidden = expectFailure(.permission) { try TokenTable(some.settings).layout() }
        let grant = "GRANT SELECT (`app_id`) ON `\(database.name)`.`active_users` TO"
        #expect(hidden?.sentence.contains(grant) == true, "\(hidden as Any)")
        let all = try ServerAccount(of: database)
        try all.run(["GRANT SELECT ON \(database.name).active_users TO '\(all.name)'@'%'"])
        all.settings.mapping.app = .named("app_idd")
        let missing = expectFailure(.configuration) { try TokenTable(all.settings).layout() }
        #expect(missing?.sentence.contains("GRANT SELECT (") == false, "\(missing as Any)")
    }

    @Test(
        "a column with a default name that is hidden from the account is refused, not taken for absent",
        arguments: ["app_id", "environment", "registered_at", "invalidated_at", "invalid_reason"])
    func hiddenDefaults(_ column: String) throws {
        let database = try TokenDatabase.own(.mariaDB)
        let store = try database.store()
        let account = try ServerAccount(of: database)
        let grants = try store.grants(for: RemovalPolicy(), user: account.name)
        try account.run(
            grants.map {
                $0.replacing("`\(column)`, ", with: "").replacing(", `\(column)`", with: "")
            })
        let hidden = expectFailure(.permission) {
            try TokenTable(account.settings).layout()
        }
        let grant = "GRANT SELECT (`\(column)`) ON `\(database.name)`.`active_users` TO"
        #expect(hidden?.sentence.contains(grant) == true, "\(hidden as Any)")
        try account.run(grants)
        try TokenTable(account.settings).require(.apply(RemovalPolicy()))
        try database.execute("ALTER TABLE active_users DROP INDEX device, DROP COLUMN \(column)")
        #expect(throws: Never.self) { try TokenTable(account.settings).layout() }
    }

    @Test("an account that marks cannot delete rows or change tokens")
    func leastPrivilege() throws {
        let database = try TokenDatabase.own(.mariaDB)
        try Self.fill(database, "own")
        let account = try ServerAccount(of: database)
        try account.run(
            try database.store().grants(for: RemovalPolicy(), user: account.name))
        guard case .server(let server) = account.settings.location else { return }
        let connection = MariaDBConnection(server, account.settings)
        try connection.connect()
        for statement in [
            "DELETE FROM active_users WHERE id = 1",
            "UPDATE active_users SET device_token = 'x' WHERE id = 1",
            "SELECT user_id FROM active_users",
        ] {
            let failure = #expect(throws: SQLFailure.self) { try connection.query(statement) }
            #expect(failure?.kind == .permission)
        }
    }

    @Test("classification works with SELECT alone and writes nothing")
    func readsOnly() throws {
        for (name, schema) in Self.schemas() {
            let database = try TokenDatabase(.mariaDB)
            try schema(database)
            try Self.fill(database, name)
            let account = try ServerAccount(of: database)
            try account.run(["GRANT SELECT ON \(database.name).* TO '\(account.name)'@'%'"])
            let tables =
                "CHECKSUM TABLE active_users, pushsweep_run, pushsweep_batch, pushsweep_change, "
                + "pushsweep_invalid, pushsweep_lease"
            let before = try database.texts(tables)
            let store = try TokenTable(account.settings)
            try store.require(.read)
            let result = try store.classify((0..<30).map { .dead($0, at: start + 60_000) })
            #expect(result.counts == Counts(applied: 20, unknown: 10))
            #expect(try store.progress(of: "f") == nil)
            #expect(try store.due(Self.expiry) == 0)
            #expect(try database.texts(tables) == before)
            expectFailure(.permission) {
                try store.apply([.dead(1, at: start + 60_000)])
            }
        }
    }

    @Test("a dry run needs only SELECT on the token table, with or without our tables")
    func readsTokenTableOnly() throws {
        for hasSideTables in [true, false] {
            let database = try TokenDatabase(.mariaDB)
            if hasSideTables { try database.createSideTables() }
            try database.execute(
                "CREATE TABLE active_users (udid varchar(40) PRIMARY KEY, device_token varchar(255) "
                    + "NOT NULL, KEY (device_token))")
            try Self.fill(database, "PushChat")
            let account = try ServerAccount(of: database)
            // The catalog shows the table, but the account may not read it.
            let grants =
                ["GRANT SELECT ON \(database.name).active_users TO '\(account.name)'@'%'"]
                + (hasSideTables
                    ? [
                        "GRANT INSERT ON \(database.name).pushsweep_invalid TO '\(account.name)'@'%'"
                    ]
                    : [])
            try account.run(grants)
            let store = try TokenTable(account.settings)
            try store.require(.read)
            let result = try store.classify((0..<30).map { .dead($0, at: start + 60_000) })
            #expect(result.counts == Counts(applied: 20, unknown: 10))
            #expect(try Batches(store).visibility() != .readable)
            #expect(try store.due(Self.expiry) == 0)
            #expect(throws: StoreFailure.self) { try store.progress(of: "f") }
        }
    }

    @Test("a wrong password or an unknown database is not reported as a server that is down")
    func refusedAccounts() throws {
        let database = try TokenDatabase(.mariaDB)
        let server = try #require(MariaDBServer.fromEnvironment)
        var wrong = database.settings
        wrong.password = Secret("not it")
        let denied = expectFailure(.permission) { try TokenTable(wrong, pacing: hurried()) }
        #expect(denied?.sentence.contains("not it") == false)
        expectFailure(.configuration) {
            try TokenTable(server.settings(database: "ps_nothing"), pacing: hurried())
        }
        var down = database.settings
        down.location = try StoreLocation("mysql://u@127.0.0.1:1/push", relativeTo: "/")
        expectFailure(.unreachable) { try TokenTable(down, pacing: hurried()) }
    }
}
