import Findings
import Testing

@testable import Database

@Suite("What is said about errors of servers")
struct FailureWordsTests {
    /// An error as a server gives it, what is said about it, and what is not.
    struct Case: Sendable, CustomTestStringConvertible {
        let code: UInt32
        let message: String
        let says: [String]
        let kind: StoreFailure.Code
        var testDescription: String { "\(code) \(message)" }

        init(_ code: UInt32, _ message: String, _ kind: StoreFailure.Code, _ says: String...) {
            (self.code, self.message, self.kind, self.says) = (code, message, kind, says)
        }
    }

    @Test(
        "each limit is named, and what sets it",
        arguments: [
            Case(
                1226,
                "User 'a' has exceeded the 'max_user_connections' resource (current value: 1)",
                .busy, "MAX_USER_CONNECTIONS", "ALTER USER"),
            Case(
                1226,
                "User 'a' has exceeded the 'max_queries_per_hour' resource (current value: 30)",
                .busy, "MAX_QUERIES_PER_HOUR", "each hour"),
            Case(
                1226, "User 'a' has exceeded the 'max_questions' resource (current value: 30)",
                .busy, "MAX_QUERIES_PER_HOUR", "each hour"),
            Case(1226, "some other words", .busy, "a limit of the account", "ALTER USER"),
            Case(
                1203, "User a already has more than 'max_user_connections' active connections",
                .busy, "max_user_connections"),
            Case(1040, "Too many connections", .busy, "max_connections"),
            Case(
                1461,
                "Can't create more than max_prepared_stmt_count statements (current value: 0)",
                .busy, "raise max_prepared_stmt_count"),
            Case(
                1153, "Got a packet bigger than 'max_allowed_packet' bytes", .configuration,
                "max_allowed_packet", "1048576"),
            Case(1709, "Index column size too large", .configuration, "ROW_FORMAT=DYNAMIC"),
            Case(
                1045, "Access denied for user 'a'@'h' (using password: YES)", .permission,
                "store.password-file", "X509", "REQUIRE SSL"),
        ])
    func words(_ given: Case) {
        let failure = StoreFailure(
            .mariaDB(code: given.code, message: given.message), while: "doing")
        #expect(failure.code == given.kind)
        for words in given.says {
            #expect(failure.description.contains(words), "\(failure)")
        }
        #expect(!failure.description.contains("compare the settings"))
        if given.code == 1226 { #expect(!failure.description.contains("max_connections sets")) }
    }
}
