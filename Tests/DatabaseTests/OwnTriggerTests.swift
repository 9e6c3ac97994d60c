import TestSupport
import Testing

@testable import Database

@Suite("Triggers of registrations.md among others")
struct OwnTriggerTests {
    private static func isOwn(
        _ body: String, _ event: String = "UPDATE", name: String = "pushsweep_registered_update"
    ) -> Bool {
        TableReach.Trigger(name: name, event: event, body: body)
            .isOwn(token: "Token", key: ["Id"], of: TableName(name: "devices"))
    }

    private static let spared = "IF @pushsweep IS NULL THEN SET NEW.seen_at = NOW(); END IF"

    @Test(
        "is ours on a server where all of its statements are behind @pushsweep IS NULL",
        arguments: [
            spared, "BEGIN \(spared); END",
            "begin if @pushsweep is null and NEW.a <=> OLD.a then "
                + "if (a or b) then set NEW.seen_at = if(a, 1, 2); elseif c then set NEW.seen_at = 1; "
                + "else set NEW.seen_at = 2; end if; end if; end",
            "BEGIN DECLARE EXIT HANDLER FOR 1054 BEGIN END; IF @pushsweep IS NULL AND (a OR b) THEN "
                + "SET NEW.seen_at = NOW(); END IF; END",
            "BEGIN # the time\n /* of the app */ \(spared); END",
        ])
    func own(_ body: String) {
        #expect(Self.isOwn(body))
        #expect(!Self.isOwn(body, name: "registered"))
    }

    @Test(
        "is somebody else's on a server where a statement may run in our sessions",
        arguments: [
            "SET NEW.seen_at = NOW()", "BEGIN SET NEW.seen_at = NOW(); \(spared); END",
            "BEGIN \(spared); SET NEW.seen_at = NOW(); END",
            "BEGIN \(spared); IF a THEN SET NEW.seen_at = NOW(); END IF; END",
            "IF @pushsweep IS NULL OR NEW.a = 1 THEN SET NEW.seen_at = NOW(); END IF",
            "IF @pushsweep IS NULL AND a OR b THEN SET NEW.seen_at = NOW(); END IF",
            "IF @pushsweep IS NULL || b THEN SET NEW.seen_at = NOW(); END IF",
            "IF @pushsweep IS NOT NULL THEN SET NEW.seen_at = NOW(); END IF",
            "IF @pushsweep IS NULL THEN SET NEW.a = 1; ELSE SET NEW.seen_at = NOW(); END IF",
            "IF @pushsweep IS NULL THEN SET NEW.a = 1; ELSEIF a THEN SET NEW.seen_at = NOW(); END IF",
            "IF '@pushsweep' IS NULL THEN SET NEW.seen_at = NOW(); END IF",
            "BEGIN DECLARE EXIT HANDLER FOR 1054 BEGIN SET NEW.a = 1; END; \(spared); END",
        ])
    func foreign(_ body: String) {
        #expect(!Self.isOwn(body))
    }

    @Test("is ours in SQLite where an update of the token alone runs it")
    func updateInSQLite() {
        func body(_ event: String) -> String {
            "CREATE TRIGGER pushsweep_registered_update AFTER \(event) ON devices BEGIN "
                + "UPDATE devices SET seen_at = 1 WHERE id IS NEW.id; END"
        }
        #expect(Self.isOwn(body("UPDATE OF token")) && Self.isOwn(body("UPDATE OF \"Token\"")))
        for event in ["UPDATE", "UPDATE OF token, active", "UPDATE OF active"] {
            #expect(!Self.isOwn(body(event)), "\(event)")
        }
    }

    @Test("is ours in SQLite where an insert writes its own row, by the key")
    func insertInSQLite() {
        func body(_ statements: String) -> String {
            "CREATE TRIGGER pushsweep_registered_insert AFTER INSERT ON devices BEGIN \(statements) END"
        }
        let update = "UPDATE devices SET seen_at = datetime('now') WHERE"
        #expect(Self.isOwn(body("\(update) id IS NEW.id;"), "INSERT"))
        #expect(Self.isOwn(body("\(update) part = NEW.part AND \"id\" = NEW.id;"), "INSERT"))
        for statements in [
            "UPDATE devices SET seen_at = 1;", "\(update) id IS NEW.id OR 1;",
            "\(update) id IS NOT NEW.id;", "\(update) part IS NEW.part;",
            "\(update) id IS NEW.id; DELETE FROM devices;", "DELETE FROM devices;",
            "UPDATE others SET seen_at = 1 WHERE id IS NEW.id;",
            "UPDATE OR REPLACE devices SET slot = 1 WHERE id IS NEW.id;",
        ] {
            #expect(!Self.isOwn(body(statements), "INSERT"), "\(statements)")
        }
    }

    @Test("is believed by its name where the server hides its statements")
    func hidden() {
        #expect(Self.isOwn("") && !Self.isOwn("", name: "touch"))
    }

    @Test("may write the columns that it names, where it runs before the row is written")
    func mayWrite() {
        var trigger = TableReach.Trigger(
            name: "touch", event: "UPDATE", body: "SET NEW.`Seen_At` = NOW() /* place */")
        #expect(trigger.mayWrite(["seen_at"]) && !trigger.mayWrite(["place", "at"]))
        trigger.mayWriteTable = false
        #expect(!trigger.mayWrite(["seen_at"]))
        let hidden = TableReach.Trigger(name: "touch", event: "UPDATE", body: "")
        #expect(hidden.mayWrite(["seen_at"]))
    }

    @Test(
        "can write its table in SQLite, and on a server where it runs before",
        arguments: TestEngine.available)
    func timing(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute("CREATE TABLE log (id INTEGER)")
        try database.execute("CREATE TABLE devices (id INTEGER)")
        for moment in ["BEFORE", "AFTER"] {
            let body = "INSERT INTO log VALUES (1)"
            try database.execute(
                "CREATE TRIGGER t\(moment) \(moment) UPDATE ON devices FOR EACH ROW "
                    + (engine == .sqlite ? "BEGIN \(body); END" : body))
        }
        let found = try Catalog(connection: database.sql).triggers(of: TableName(name: "devices"))
        #expect(
            Set(found.filter(\.mayWriteTable).map(\.name))
                == (engine == .sqlite ? ["tBEFORE", "tAFTER"] : ["tBEFORE"]))
    }
}
