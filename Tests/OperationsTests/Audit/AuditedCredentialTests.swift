import APNsProtocol
import Looks
import Testing

@Suite("A certificate in an audit")
struct AuditedCredentialTests {
    @Test(
        "a certificate has ended from its last second on, and not a day later",
        arguments: [
            (86_400, 1), (86_399, 0), (1, 0), (0, 0), (-1, -1), (-4_200, -1), (-86_400, -1),
            (-86_401, -2),
        ])
    func days(seconds: Int64, days: Int) {
        let end: Int64 = 1_750_000_000
        let now = EpochMilliseconds((end - seconds) * 1_000)
        #expect(AuditedCredential.days(from: now, to: end) == days)
    }
}
