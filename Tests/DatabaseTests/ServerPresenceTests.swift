import Foundation
import TestSupport
import Testing

@Suite("The database server of the tests")
struct ServerPresenceTests {
    @Test("the server is present wherever CI is set; elsewhere the test prints its absence")
    func presence() {
        if MariaDBServer.isAvailable { return }
        // swift test prints skipped arguments nowhere, and a suite without a server looks complete.
        print(
            """

            *** No MariaDB: every test that takes an engine ran on SQLite alone. ***
            *** \(MariaDBServer.absence) ***

            """)
        #expect(ProcessInfo.processInfo.environment["CI"] == nil, "CI has no database server")
    }
}
