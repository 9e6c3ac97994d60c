import TestSupport
import Testing

@testable import Database

@Suite("When a trigger assigns a column")
struct TriggerAssignmentTests {
    private static func assignment(_ body: String, _ engine: SQLDialect.Engine) -> TriggerAssignment
    {
        TableReach.Trigger(name: "touch", event: "UPDATE", body: body).assignment(
            of: ["seen_at"], token: "Token", changed: ["active"], in: TableName(name: "devices"),
            engine)
    }

    private static let server: [(String, TriggerAssignment)] = [
        ("SET NEW.seen_at = NOW()", .always),
        ("SET NEW.`seen_at` := UTC_TIMESTAMP(3)", .always),
        ("BEGIN SET NEW.name = UPPER(NEW.name), NEW.seen_at = NOW(); END", .always),
        ("BEGIN /* @pushsweep IS NULL */ SET NEW.seen_at = NOW(); END", .always),
        ("BEGIN # the last visit (of the app\n SET NEW.seen_at = NOW(); END", .always),
        (
            "SET NEW.name = CAST(NEW.other AS CHAR CHARACTER SET utf8mb4), NEW.seen_at = NOW()",
            .always
        ),
        (
            "BEGIN DECLARE a CHAR(9) CHARACTER SET utf8mb4; SET NEW.name = a, NEW.seen_at = NOW(); END",
            .always
        ),
        ("SET NEW.name = 'x', CHARACTER SET utf8mb4, NEW.seen_at = NOW()", .always),
        ("SET NEW.name = UPPER(NEW.`set`), NEW.seen_at = NOW()", .always),
        ("SET NEW.name = CONCAT(NEW.name, \";(\", \";\", \"(\"), NEW.seen_at = NOW()", .always),
        ("IF NEW.name = \"(\" THEN SET NEW.seen_at = NOW(); END IF", .always),
        ("BEGIN SET @a = '@pushsweep is null'; SET NEW.seen_at = NOW(); END", .always),
        ("IF NEW.active = 1 THEN SET NEW.seen_at = NOW(); END IF", .always),
        ("IF NEW.token <=> OLD.token THEN SET NEW.seen_at = NOW(); END IF", .always),
        (
            "IF NEW.token <> OLD.token OR NEW.active <> OLD.active THEN SET NEW.seen_at = NOW(); END IF",
            .always
        ),
        ("IF @pushsweep IS NOT NULL THEN SET NEW.seen_at = NOW(); END IF", .always),
        (
            "IF @pushsweep IS NULL THEN SET NEW.name = 'x'; ELSE SET NEW.seen_at = NOW(); END IF",
            .always
        ),
        (
            "BEGIN IF @pushsweep IS NULL THEN SET NEW.name = 'x'; END IF; SET NEW.seen_at = NOW(); END",
            .always
        ),
        ("IF @pushsweep IS NULL THEN SET NEW.seen_at = NOW(); END IF", .withoutUs),
        (
            "IF ISNULL(@pushsweep) AND NEW.name <> '' THEN SET NEW.seen_at = NOW(); END IF",
            .withoutUs
        ),
        (
            "p: BEGIN IF @pushsweep IS NOT NULL THEN LEAVE p; END IF; SET NEW.seen_at = NOW(); END",
            .withoutUs
        ),
        ("SET NEW.seen_at = IF(@pushsweep IS NULL, NOW(), OLD.seen_at)", .withoutUs),
        ("IF NOT (NEW.token <=> OLD.token) THEN SET NEW.seen_at = NOW(); END IF", .withToken),
        ("IF NEW.token <> OLD.token THEN SET NEW.seen_at = NOW(); END IF", .withToken),
        (
            "SET NEW.seen_at = CASE WHEN NEW.token <> OLD.token THEN NOW() ELSE OLD.seen_at END",
            .withToken
        ),
        ("SET NEW.seen_at = OLD.seen_at", .never), ("SET NEW.last_seen_at = NOW()", .never),
        ("INSERT INTO log (seen_at) VALUES (NEW.seen_at)", .never),
        ("UPDATE other SET seen_at = NOW() WHERE id = NEW.id", .never), ("", .never),
    ]

    private static func lite(_ event: String, _ set: String = "seen_at = datetime('now')") -> String
    {
        "CREATE TRIGGER touch AFTER \(event) BEGIN UPDATE devices SET \(set) WHERE id = NEW.id; END"
    }

    private static let sqlite: [(String, TriggerAssignment)] = [
        (lite("UPDATE ON devices"), .always),
        (lite("UPDATE ON devices FOR EACH ROW WHEN OLD.seen_at = NEW.seen_at"), .always),
        (lite("UPDATE OF name, active ON devices"), .always),
        (lite("UPDATE ON devices", "name = upper(\"set\"), seen_at = datetime('now')"), .always),
        (lite("UPDATE OF token ON devices"), .withToken),
        (lite("UPDATE OF name, \"Token\" ON devices"), .withToken),
        (lite("UPDATE ON devices WHEN NEW.token IS NOT OLD.token"), .withToken),
        (lite("UPDATE OF name ON devices"), .never),
        (lite("UPDATE ON devices", "last_seen_at = datetime('now')"), .never),
        // Several columns at once, and an upsert.
        (lite("UPDATE ON devices", "(name, seen_at) = ('x', datetime('now'))"), .always),
        (lite("UPDATE ON devices", "name = 'x', (seen_at) = (datetime('now'))"), .always),
        (lite("UPDATE ON devices", "(name, place) = ('x', (SELECT seen_at FROM other))"), .never),
        (upsert("devices"), .always), (upsert("other"), .never),
    ]

    private static func upsert(_ table: String) -> String {
        "CREATE TRIGGER touch AFTER UPDATE ON devices BEGIN INSERT INTO \(table) (id, seen_at) VALUES "
            + "(NEW.id, 1) ON CONFLICT (id) DO UPDATE SET seen_at = datetime('now'); END"
    }

    @Test("is read from the conditions around the assignment", arguments: server)
    func onServer(_ body: String, _ expected: TriggerAssignment) {
        #expect(Self.assignment(body, .mariaDB) == expected)
    }

    @Test("is read in SQLite from the columns that it names and its WHEN", arguments: sqlite)
    func inSQLite(_ body: String, _ expected: TriggerAssignment) {
        #expect(Self.assignment(body, .sqlite) == expected)
    }
}
