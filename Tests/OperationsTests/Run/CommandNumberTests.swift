import Operations
import Settings
import Testing

@Suite("Numbers of the command line")
struct CommandNumberTests {
    @Test(
        "absurd numbers are refused",
        arguments: [
            "99999999999999", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
            "-1", "1e400", "nan", "0x10", "", " 1",
        ])
    func refused(_ text: String) throws {
        let refused = { (read: () throws -> Void) in
            #expect(throws: (any Error).self) { try read() }
        }
        _ = refused { _ = try CommandNumber.rows(text) }
        _ = refused { _ = try CommandNumber.mebibytes(text) }
        // Swift reads this one as 16.
        if text != "0x10" { _ = refused { _ = try CommandNumber.rate(text) } }
    }

    @Test("the last value of each range is taken")
    func last() throws {
        #expect(try CommandNumber.rows("1000000000") == 1_000_000_000)
        #expect(try CommandNumber.mebibytes("1048576") == 1 << 40)
        #expect(try CommandNumber.rate("1000000") == 1_000_000)
    }
}
