import Testing

@testable import Operations

@Suite("Words about senders that are gone")
struct ReclaimedWordsTests {
    @Test("rows of unknown outcome are told, whether they are closed or sent again")
    func unknown() {
        #expect(SendWords.warning([.pending: 5]) == nil, "they were never on the wire")
        #expect(
            SendWords.warning([.pending: 5, .retry: 3])
                == "3 notifications of senders that are gone are of unknown outcome and are sent again "
                + "under their apns-id, as send.resend-unknown says: some may be delivered twice")
        #expect(
            SendWords.warning([.pending: 5, .unknown: 2])?.hasPrefix(
                "2 notifications of senders that are gone are of unknown outcome: ") == true)
    }
}
