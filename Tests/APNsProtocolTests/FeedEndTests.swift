import APNsProtocol
import Testing

@Suite("The end of a feed")
struct FeedEndTests {
    @Test("the end of a feed follows from the connection and the bytes together")
    func judgement() {
        let cut = FeedbackEnding.truncatedHeader(present: 3)
        let table: [(CaptureEnd, FeedbackEnding, ListEnd)] = [
            (.closeNotify, .clean, .clean), (.closeNotify, cut, .truncated),
            (.cut, .clean, .truncated), (.cut, cut, .truncated), (.reset, .clean, .reset),
            (.reset, cut, .reset), (.idle, .clean, .idle), (.idle, cut, .timeout),
            (.broken, .clean, .truncated), (.full, .clean, .truncated),
            (.stopped, .clean, .truncated), (.crashed, .clean, .truncated),
            (.file, .clean, .clean), (.file, cut, .truncated),
        ]
        for (capture, ending, end) in table {
            #expect(ListEnd(capture, ending) == end)
        }
        for capture in CaptureEnd.allCases {
            #expect(
                ListEnd(capture, .outOfStep(offset: 0, announced: 9_999)) == .misframed)
        }
    }

    @Test("the end of a feed is complete only where nothing can be missing")
    func completeness() {
        #expect(ListEnd.allCases.filter(\.isComplete) == [.clean, .idle])
    }
}
