import Testing

@testable import Operations
@testable import PushQueue

@Suite("Words about senders that are gone")
struct ReclaimedWordsTests {
    @Test("rows of unknown outcome are told, whether they are closed or sent again")
    func unknown() {
        var reclaimed = ReclaimedRows()
        reclaimed.returned = 5
        #expect(SendWords.warning(reclaimed) == nil, "they were never on the wire")
        reclaimed.resent = 3
        #expect(
            SendWords.warning(reclaimed)
                == "3 notifications of senders that are gone are of unknown outcome and are sent again "
                + "under their apns-id, as send.resend-unknown says: some may be delivered twice")
        (reclaimed.resent, reclaimed.unknown) = (0, 2)
        #expect(
            SendWords.warning(reclaimed)?.hasPrefix(
                "2 notifications of senders that are gone are of unknown outcome: ") == true)
    }
}
