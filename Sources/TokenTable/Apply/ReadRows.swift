// A forecast reads the rows of a batch, and the chunks that follow would read them again. So the first rows of a
// forecast stay in memory. A chunk whose tokens they cover judges them as they are, and its statement repeats what was
// read: key, token, registration and mark. It does not find a row that changed in between. Then the chunk is rolled
// back, and tried again with a read under locks, as is every chunk behind the last row kept.
//
//   forecast: read, keep -> guard -> chunk: judge what was kept -> change what is still so -> commit
//                                      | a row is another one
//                                      +-> roll back -> read under locks -> judge -> change -> commit
//
// A row that nothing is to be done about is not looked at again: one that registered later stays so, one that is dead
// stays dead for this evidence. A row that came since then has a later registration.

import APNsProtocol
import Database
import TokenHygiene

/// Rows that a forecast has read, for the chunks of the same batch. Confined to the store's thread.
package final class ReadRows {
    /// The most rows kept: some 20 MiB with the usual columns.
    private static let most = 50_000
    /// The most bytes of their texts.
    private static let mostBytes = 8 << 20

    /// What one statement of the forecast has read.
    struct Page {
        let tokens: ClosedRange<DeviceToken>
        let rows: [(token: DeviceToken, row: MatchedRow)]
        let marks: [DeviceToken: TokenMark]
        let notes: [DeviceToken: SparedToken]
        let bytes: Int

        /// Makes a page of the rows found for a list of evidence; nil for an empty list.
        init?(
            _ list: ArraySlice<TokenEvidence>, _ found: FoundRows<[MatchedRow]>,
            _ marks: [DeviceToken: TokenMark], _ notes: [DeviceToken: SparedToken]
        ) {
            guard let first = list.first, let last = list.last else { return nil }
            tokens = first.token...last.token
            rows = found.rows.map { (list[$0.evidence].token, $0) }
            (self.marks, self.notes, bytes) = (marks, notes, found.bytes)
        }
    }

    /// What is known of the tokens of a chunk.
    struct Known {
        var rows = FoundRows<[MatchedRow]>(rows: [])
        var marks: [DeviceToken: TokenMark] = [:]
        var notes: [DeviceToken: SparedToken] = [:]
    }

    private var columns: [String] = []
    /// In the order of tokens, without a gap.
    private var pages: [Page] = []
    private var (count, bytes) = (0, 0)
    private var isFull = false

    package init() {}

    /// Keeps what the forecast has read next, as long as there is room.
    func keep(_ pages: [Page], _ columns: [String]) {
        self.columns = columns
        for page in pages where !isFull {
            isFull = count + page.rows.count > Self.most || bytes + page.bytes > Self.mostBytes
            guard !isFull else { return }
            self.pages.append(page)
            (count, bytes) = (count + page.rows.count, bytes + page.bytes)
        }
    }

    /// What was read about the tokens of a chunk; nil unless it covers all of them, with these columns. Pages before the
    /// chunk are dropped.
    func known(of chunk: ArraySlice<TokenEvidence>, _ columns: [String]) -> Known? {
        guard columns == self.columns, let first = chunk.first?.token, let last = chunk.last?.token
        else { return nil }
        pages.removeFirst(pages.prefix { $0.tokens.upperBound < first }.count)
        guard let start = pages.first?.tokens.lowerBound, let end = pages.last?.tokens.upperBound,
            start <= first, last <= end
        else { return nil }
        var known = Known()
        var place = chunk.startIndex
        for page in pages where page.tokens.lowerBound <= last {
            for (token, row) in page.rows where token >= first && token <= last {
                while place < chunk.endIndex, chunk[place].token < token { place += 1 }
                // Another run may have decided about it meanwhile.
                guard place < chunk.endIndex, chunk[place].token == token else { continue }
                var row = row
                row.evidence = place
                known.rows.rows.append(row)
            }
            known.rows.bytes += page.bytes
            known.marks.merge(page.marks) { mark, _ in mark }
            known.notes.merge(page.notes) { note, _ in note }
        }
        return known
    }
}
