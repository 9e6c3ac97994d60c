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

    func folder() throws -> StateFolder { try StateFolder(state) }

    /// A look at the folder as another run has it.
    func look() throws -> StateFolder {
        try #require(SenderFolders.neighbours(in: state).folders.first).folder
    }

    /// The path of the file of a list.
    func list(_ id: String) -> String { "\(state)/list-\(id)" }

    /// The names in the folder that begin so.
    func names(_ prefix: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: state).filter { $0.hasPrefix(prefix) }
    }
}

extension StateFolder {
    /// Captures a list; one without an end is left as a killed run leaves it.
    func capture(
        _ pieces: [[UInt8]], of partition: Partition = chat, end: CaptureEnd? = .closeNotify,
        at opened: EpochMilliseconds = noon
    ) throws -> String {
        let capture = try beginList(
            run: "run", partition: partition, source: "gateway:2196", at: opened)
        for piece in pieces { try piece.withUnsafeBytes { try capture.append($0) } }
        if let end { try capture.close(end, at: opened) }
        return capture.id
    }

    func bytes(of list: String) throws -> [UInt8] {
        var all: [UInt8] = []
        try readBytes(of: self.list(list)) { all.append(contentsOf: $0) }
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
