import APNsProtocol
import Foundation
import Glibc
import TestSupport
import Testing
import TokenHygiene

@testable import EvidenceJournal

@Suite("The lists of a state folder")
struct ListTests {
    private let fixture: JournalFixture

    init() throws { fixture = try JournalFixture() }

    @Test("a list has its bytes unchanged, in any pieces, also for a run that comes later")
    func roundTrip() throws {
        var random = SeededGenerator("pieces of lists")
        let pieces = (0..<20).map { _ in random.bytes(Int.random(in: 0...140_000, using: &random)) }
        let id = try fixture.folder().capture(pieces)
        let folder = try fixture.folder()
        #expect(try folder.bytes(of: id) == pieces.flatMap { $0 }, "seed \(random.seed)")
        let list = try #require(folder.lists(.pending).first)
        #expect(list.id == id && list.bytes == pieces.reduce(0) { $0 + $1.count })
        #expect(list.end == .closeNotify && list.partition == chat)
        #expect(list.opened == noon && list.source == "gateway:2196")
        for offset in [0, 1, 65_520, 200_000, list.bytes] {
            var rest: [UInt8] = []
            try folder.readBytes(of: list, from: offset) { rest += $0 }
            #expect(rest.elementsEqual(pieces.joined().dropFirst(offset)), "from \(offset)")
        }
    }

    @Test("the run after a killed one has every byte that came from the socket, once")
    func recovery() throws {
        var random = SeededGenerator("killed lists")
        for round in 0..<30 {
            let bytes = random.bytes(Int.random(in: 1...150_000, using: &random))
            var folder: StateFolder? = try fixture.folder()
            let capture = try #require(
                try folder?.beginList(
                    run: "run", partition: chat, source: "gateway:2196", at: noon))
            try feed(bytes, to: capture, &random)
            folder = nil
            let look = try fixture.look()
            #expect(try look.list(capture.id).state == .reading)
            let next = try fixture.folder()
            #expect(try next.lists(.pending).isEmpty)
            #expect(try next.recoverLists().isEmpty)
            let list = try #require(try next.lists(.pending).first)
            #expect(list.id == capture.id && list.end == .crashed && list.read == noon)
            #expect(try next.bytes(of: list.id) == bytes, "seed \(random.seed), round \(round)")
            #expect(try next.recoverLists().isEmpty)
            #expect(try next.list(list.id) == list)
            try next.noteApplied(list.id, at: noon)
        }
    }

    /// Lets bytes arrive in pieces, of which some are appended too.
    private func feed(
        _ bytes: [UInt8], to capture: ListCapture, _ random: inout SeededGenerator
    ) throws {
        var read = 0
        while read < bytes.count {
            let next = Int.random(in: read + 1...min(bytes.count, read + 30_000), using: &random)
            bytes[read..<next].withUnsafeBytes { capture.arrive($0, at: read) }
            read = next
            guard Bool.random(using: &random) else { continue }
            try bytes[capture.bytes..<read].withUnsafeBytes { try capture.append($0) }
        }
    }

    @Test("a list is in exactly one state")
    func states() throws {
        let folder = try fixture.folder()
        let capture = try folder.beginList(
            run: "run", partition: .noApp, source: "gateway", at: noon)
        #expect(try folder.lists(.reading).map(\.id) == [capture.id])
        try capture.close(.full, at: noon.advanced(by: 7), heldBecause: "too much")
        #expect(try folder.lists(.reading, .pending, .applied).isEmpty)
        #expect(try folder.lists(.held).map(\.cause) == ["too much"])
        #expect(try folder.lists(.held).map(\.read) == [noon.advanced(by: 7)])
        for _ in 0..<2 {
            try folder.noteApplied(capture.id, at: noon)
            #expect(try folder.lists(.reading, .held, .pending).isEmpty)
            let list = try folder.list(capture.id)
            #expect(list.state == .applied && list.cause == nil)
        }
        let names = [
            try folder.capture([[1]], at: noon.advanced(by: 2)),
            try folder.capture([[1]], at: noon.advanced(by: 1)),
        ]
        #expect(try folder.lists(.pending).map(\.id) == names.reversed())
        expectFailure(.unknownList, "no-such-list") { try folder.list("no-such-list") }
        expectFailure(.unknownList) { try folder.list("../\(names[0])") }
    }

    @Test("an applied list goes after 30 days, and a pending one never")
    func purge() throws {
        let folder = try fixture.folder()
        let (applied, pending) = try (folder.capture([[1]]), folder.capture([[3]]))
        // They had waited for months.
        let settled = noon.advanced(by: 100 * 86_400_000)
        try folder.noteApplied(applied, at: settled)
        let days = StateFolder.retentionDays * 86_400_000
        try folder.purgeLists(at: settled.advanced(by: days))
        #expect(try folder.bytes(of: applied) == [1])
        #expect(try folder.appliedLists(since: settled.advanced(by: -1)) == [applied])
        #expect(try folder.appliedLists(since: settled).isEmpty)
        try folder.purgeLists(at: settled.advanced(by: days + 1))
        expectFailure(.unknownList, "30 days after it was applied") {
            try folder.bytes(of: applied)
        }
        #expect(try folder.bytes(of: pending) == [3])
    }

    @Test(
        "an abandoned list leaves nothing, and neither does one whose run was killed before it began"
    )
    func abandoned() throws {
        let folder = try fixture.folder()
        try folder.beginList(run: "run", partition: chat, source: "gateway", at: noon).abandon()
        #expect(try fixture.names("list-").isEmpty)
        let id = try folder.capture([], end: nil)
        let whole = try Data(contentsOf: URL(fileURLWithPath: fixture.list(id)))
        for count in [0, 5, 100] {
            try whole.prefix(count).write(to: URL(fileURLWithPath: fixture.list(id)))
            #expect(try folder.lists(.reading).isEmpty)
            #expect(try folder.recoverLists().isEmpty)
            #expect(try fixture.names("list-").isEmpty)
        }
    }

    @Test("who looks at a folder changes nothing in it, whatever its lists are")
    func looks() throws {
        let folder = try fixture.folder()
        let damaged = try folder.capture([[UInt8](repeating: 7, count: 900)])
        let ids = try [
            folder.capture([[1]], end: nil), folder.capture([[2]]), damaged,
        ]
        try flip(damaged, at: ListForm.section + 100)
        let before = try ids.map { try Data(contentsOf: URL(fileURLWithPath: fixture.list($0))) }
        let look = try fixture.look()
        #expect(try look.lists(.reading, .pending).count == 3)
        for id in ids.prefix(2) { #expect(try look.counts(of: look.list(id)).tuples == 0) }
        expectFailure(.inputOutput, "the next run that takes its folder sets it aside") {
            try look.bytes(of: damaged)
        }
        let after = try ids.map { try Data(contentsOf: URL(fileURLWithPath: fixture.list($0))) }
        #expect(before == after)
    }

    private func flip(_ list: String, at place: Int) throws {
        let url = URL(fileURLWithPath: fixture.list(list))
        var content = try Data(contentsOf: url)
        content[place] ^= 4
        try content.write(to: url)
    }

    @Test("a damaged list is set aside by name with all its bytes, and the others go on")
    func damaged() throws {
        var random = SeededGenerator("damaged lists")
        let bytes = random.bytes(200_000)
        let good = try fixture.folder().capture([[5, 6, 7]])
        for isClosed in [true, false] {
            // A head, and blocks of the first, the second and the last section.
            for place in [40, 65_540, 65_600, 131_080, 140_000, 198_000] {
                let folder = try fixture.folder()
                let pieces = stride(from: 0, to: bytes.count, by: 10_000).map {
                    Array(bytes[$0..<$0 + 10_000])
                }
                let id = try folder.capture(pieces, end: isClosed ? .closeNotify : nil)
                try flip(id, at: place)
                let content = try Data(contentsOf: URL(fileURLWithPath: fixture.list(id)))
                var failures = (try? folder.recoverLists()) ?? []
                do { _ = try folder.bytes(of: id) } catch let error as JournalFailure {
                    if error.code != .unknownList { failures.append(error) }
                }
                #expect(
                    failures.map(\.code) == [.undecodable], "\(isClosed) at \(place): \(failures)")
                let kept = try #require(folder.damagedFiles.first)
                #expect(kept.hasPrefix("list-\(id).damaged-"))
                #expect(failures.first?.description.contains(kept) == true)
                let url = URL(fileURLWithPath: "\(fixture.state)/\(kept)")
                #expect(try Data(contentsOf: url) == content)
                try FileManager.default.removeItem(at: url)
                #expect(try folder.lists(.reading, .pending).map(\.id) == [good])
                #expect(try folder.bytes(of: good) == [5, 6, 7])
            }
        }
    }

    @Test("a file of another name, form or owner's making is no list of ours")
    func foreign() throws {
        let folder = try fixture.folder()
        let id = try folder.capture([[1, 2, 3]])
        let content = try Data(contentsOf: URL(fileURLWithPath: fixture.list(id)))
        // A copy under another name has another list's sums.
        let other = fixture.list(UUID().uuidString.lowercased())
        try content.write(to: URL(fileURLWithPath: other))
        expectFailure(.undecodable, "its head cannot be read") { try folder.lists(.pending) }
        #expect(try folder.lists(.pending).map(\.id) == [id])
        try content.write(to: URL(fileURLWithPath: fixture.state + "/list-of-mine"))
        #expect(try folder.lists(.pending).map(\.id) == [id])
        let link = fixture.list(UUID().uuidString.lowercased())
        #expect(symlink(fixture.list(id), link) == 0)
        expectFailure(.permission, "is a link") { try folder.lists(.pending) }
        expectFailure(.permission, "is a link") { try StateFolder.examine(fixture.state) }
    }

    @Test("a list of another form is refused and left as it is")
    func otherForm() throws {
        let folder = try fixture.folder()
        let id = try folder.capture([[1]])
        let file = try ListFile("list-\(id)", in: folder.folder, O_RDWR)
        var head = ListHead(
            run: "r", app: "a", environment: "e", source: "s", opened: noon.rawValue)
        head.form = 2
        try file.put(record: head, at: 0)
        expectFailure(.otherBuild, "the form of another build") { try folder.recoverLists() }
        #expect(try fixture.names("list-") == ["list-\(id)"])
    }

    @Test("room on the disk is taken ahead of what arrives, and given back at the end")
    func room() throws {
        let folder = try fixture.folder()
        func blocks(_ name: String) -> Int {
            var facts = stat()
            return lstat("\(fixture.state)/\(name)", &facts) == 0 ? Int(facts.st_blocks) * 512 : 0
        }
        let capture = try folder.beginList(run: "r", partition: chat, source: "s", at: noon)
        let name = "list-\(capture.id)"
        let piece = [UInt8](repeating: 7, count: 1 << 20)
        for number in 0..<4 {
            #expect(blocks(name) >= number << 20 + 2 << 20)
            try piece.withUnsafeBytes { try capture.append($0) }
        }
        try capture.close(.closeNotify, at: noon)
        #expect(blocks(name) < 4 << 20 + 200_000)
        let killed = try folder.capture([[1]], end: nil)
        #expect(try folder.recoverLists().isEmpty)
        #expect(blocks("list-\(killed)") < 200_000)
    }

    @Test("after a write that failed nothing is added, and that is said")
    func failedWrite() throws {
        let folder = try fixture.folder()
        let capture = try folder.beginList(run: "r", partition: chat, source: "s", at: noon)
        try [UInt8](repeating: 1, count: 100).withUnsafeBytes { try capture.append($0) }
        // A limit of the process would hit other tests; a file that is open for reading only cannot be written either.
        let file = try ListFile("list-\(capture.id)", in: folder.folder, O_RDONLY)
        expectFailure(.inputOutput, "list-\(capture.id)") {
            try [UInt8](repeating: 1, count: 9).withUnsafeBytes {
                try file.put($0, at: ListForm.section)
            }
        }
        #expect(try folder.bytes(of: capture.id).count == 100)
    }
}
