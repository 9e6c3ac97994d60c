import APNsProtocol
import TestSupport
import Testing
import TokenHygiene
import TokenStore

/// 2024-01-01T00:00:00Z in milliseconds.
let start: Int64 = 1_704_067_200_000

@Suite("What evidence does to rows")
struct VerdictTests {
    @Test(
        "a token dead after its registration is marked with the time of the evidence",
        arguments: TestEngine.available)
    func marksStaleRow(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.createOwnSchema()
        try database.register(.numbered(1), at: start)
        let progress = try database.store().apply([.dead(1, at: start + 60_123)])
        #expect(progress.counts == OutcomeCounts(applied: 1))
        #expect(progress.rowsChanged == 1 && progress.isApplied)
        #expect(
            try database.marks() == [
                "\(DeviceToken.numbered(1).hex) 2024-01-01 00:01:00.123 feedback"
            ])
    }
}
