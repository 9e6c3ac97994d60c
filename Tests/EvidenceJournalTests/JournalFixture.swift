import APNsProtocol
import EvidenceJournal
import Foundation
import TestSupport
import Testing
import TokenHygiene

let noon = EpochMilliseconds(1_700_000_000_000)
let chat = Partition(app: "chat", environment: "production")

/// A state folder of a test's own.
struct JournalFixture {
    let temporary: TemporaryFolder
    let state: String

    init() throws {
        temporary = try TemporaryFolder()
        state = temporary.file("state")
    }

    /// The path of the journal.
    var file: String { state + "/journal.sqlite" }

    func journal() throws -> EvidenceJournal { try EvidenceJournal(in: StateFolder(state)) }
}

extension EvidenceJournal {
    /// Captures a feed; one without an end is left as a killed run leaves it.
    func capture(
        _ pieces: [[UInt8]], of partition: Partition = chat, end: CaptureEnd? = .closeNotify
    ) throws -> String {
        let capture = try beginList(
            run: "run", partition: partition, source: "gateway:2196", at: noon)
        for piece in pieces { try piece.withUnsafeBytes { try capture.append($0) } }
        if let end { try capture.close(end, at: noon) }
        return capture.id
    }

    func bytes(of feed: String) throws -> [UInt8] {
        var all: [UInt8] = []
        try forEachChunk(of: feed) { all.append(contentsOf: $0) }
        return all
    }
}

/// Expects a failure of a kind with some words in its sentence.
func expectFailure<R>(
    _ code: JournalFailure.Code, _ words: String = "",
    at location: SourceLocation = #_sourceLocation, _ body: () throws -> R
) {
    let failure = #expect(throws: JournalFailure.self, sourceLocation: location) {
        _ = try body()
    }
    #expect(failure?.code == code, sourceLocation: location)
    let isSaid = words.isEmpty || failure?.description.contains(words) == true
    #expect(isSaid, "\(failure as Any)", sourceLocation: location)
}
