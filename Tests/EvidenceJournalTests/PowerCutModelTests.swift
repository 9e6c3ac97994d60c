import APNsProtocol
import Foundation
import Glibc
import TestSupport
import Testing

@testable import EvidenceJournal

/// A disk between a file and its reader: what was written since the last sync may be kept, lost or torn.
private struct ModelledDisk {
    /// The content that outlasts a power cut for sure; nil while the file's name does not.
    private var durable: [UInt8]?
    /// The file as the program sees it.
    private var present: [UInt8] = []
    /// The writes since the last sync, each a place and bytes.
    private var writes: [(place: Int, bytes: [UInt8])] = []

    /// Notes what a call has written: the range in which the file differs from before.
    mutating func wrote(_ content: [UInt8]) {
        let most = min(content.count, present.count)
        var (start, end) = (0, content.count)
        while start < most, content[start...].prefix(512).same(as: present[start...].prefix(512)) {
            start += 512
        }
        start = min(start, most)
        while start < most, content[start] == present[start] { start += 1 }
        if content.count == present.count {
            while end - start >= 512, content[end - 512..<end].same(as: present[end - 512..<end]) {
                end -= 512
            }
            while end > start, content[end - 1] == present[end - 1] { end -= 1 }
        }
        if start < end { writes.append((start, Array(content[start..<end]))) }
        present = content
    }

    /// Notes that the program was told that all is durable.
    mutating func synced() { (durable, writes) = (present, []) }

    /// The file after a power cut; nil where there is none.
    func cut(_ random: inout SeededGenerator) -> [UInt8]? {
        if durable == nil, Bool.random(using: &random) { return nil }
        var content = durable ?? []
        for (place, bytes) in writes.shuffled(using: &random) {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: continue
            case 1: put(bytes[...], at: place, into: &content)
            case 2:
                let length = Int.random(in: 0...bytes.count, using: &random)
                put(bytes[..<length], at: place, into: &content)
            default:
                // Sectors of a disk, each by itself.
                var start = 0
                while start < bytes.count {
                    let end = min(bytes.count, start + 512 - (place + start) % 512)
                    if Bool.random(using: &random) {
                        put(bytes[start..<end], at: place + start, into: &content)
                    }
                    start = end
                }
            }
        }
        return content
    }

    private func put(_ bytes: ArraySlice<UInt8>, at place: Int, into content: inout [UInt8]) {
        guard !bytes.isEmpty else { return }
        let missing = place + bytes.count - content.count
        if missing > 0 { content += [UInt8](repeating: 0, count: missing) }
        content.replaceSubrange(place..<place + bytes.count, with: bytes)
    }
}

extension ArraySlice<UInt8> {
    /// Compares faster than `==` does without optimization.
    fileprivate func same(as other: ArraySlice<UInt8>) -> Bool {
        withUnsafeBytes { one in
            other.withUnsafeBytes { other in
                guard one.count == other.count, let first = one.baseAddress,
                    let second = other.baseAddress
                else { return one.count == other.count }
                return memcmp(first, second, one.count) == 0
            }
        }
    }
}

@Suite("A power cut while a list is read")
struct PowerCutModelTests {
    private let fixture: JournalFixture

    init() throws { fixture = try JournalFixture() }

    private func content(_ id: String) throws -> [UInt8] {
        // Behind the longest list there is only room that was taken ahead.
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: fixture.list(id)))
        return [UInt8](try file.read(upToCount: 300_000) ?? Data())
    }

    /// Reads a part of a list up to a power cut, and leaves the disk and how many bytes were confirmed.
    private func reading(
        _ bytes: [UInt8], _ random: inout SeededGenerator
    ) throws -> (id: String, disk: ModelledDisk, confirmed: Int, isClosed: Bool) {
        let folder = try fixture.folder()
        var disk = ModelledDisk()
        let capture = try folder.beginList(run: "r", partition: chat, source: "s", at: noon)
        let id = capture.id
        // Room is taken behind a head that is durable.
        try disk.wrote(Array(content(id).prefix(ListForm.section)))
        guard Int.random(in: 0..<12, using: &random) > 0 else { return (id, disk, 0, false) }
        try disk.wrote(content(id))
        disk.synced()
        var read = 0
        while read < bytes.count {
            if Int.random(in: 0..<16, using: &random) == 0 {
                return (id, disk, capture.bytes, false)
            }
            let next = Int.random(in: read + 1...min(bytes.count, read + 20_000), using: &random)
            bytes[read..<next].withUnsafeBytes { capture.arrive($0, at: read) }
            read = next
            try disk.wrote(content(id))
            guard Int.random(in: 0..<3, using: &random) == 0 else { continue }
            let confirmed = capture.bytes
            try bytes[confirmed..<read].withUnsafeBytes { try capture.append($0) }
            try disk.wrote(content(id))
            // Before the call has returned nothing is confirmed.
            if Int.random(in: 0..<8, using: &random) == 0 { return (id, disk, confirmed, false) }
            disk.synced()
        }
        let confirmed = capture.bytes
        try bytes[confirmed...].withUnsafeBytes { try capture.append($0) }
        disk.synced()
        try capture.close(.closeNotify, at: noon)
        try disk.wrote(content(id))
        if Bool.random(using: &random) { return (id, disk, read, false) }
        disk.synced()
        return (id, disk, read, true)
    }

    @Test(
        "all that was confirmed is there, what is there is a beginning of what was sent, and nothing counts as damage"
    )
    func cuts() throws {
        var random = SeededGenerator("power cuts of lists")
        var (cuts, torn, longer) = (0, 0, 0)
        while cuts < 240 {
            let bytes = random.bytes(Int.random(in: 0...160_000, using: &random))
            let (id, disk, confirmed, isClosed) = try reading(bytes, &random)
            let note: Comment = "seed \(random.seed), cut \(cuts)"
            let path = URL(fileURLWithPath: fixture.list(id))
            try FileManager.default.removeItem(at: path)
            if let content = disk.cut(&random) { try Data(content).write(to: path) }
            let folder = try fixture.folder()
            var recovering = ModelledDisk()
            if try folder.hasLists { try recovering.wrote(content(id)) }
            #expect(try folder.recoverLists().isEmpty, note)
            guard let list = try folder.lists(.reading, .pending).first else {
                try #require(confirmed == 0 && !isClosed, note)
                continue
            }
            cuts += 1
            let kept = try folder.bytes(of: id)
            try #require(
                kept.count >= confirmed && kept[...].same(as: bytes.prefix(kept.count)), note)
            #expect(list.bytes == kept.count && list.state == .pending, note)
            if isClosed { #expect(kept.count == bytes.count && list.end == .closeNotify, note) }
            if kept.count < bytes.count { torn += 1 }
            if kept.count > confirmed { longer += 1 }
            // The power fails again while the next run closes the list, whose bytes are durable by then.
            recovering.synced()
            try recovering.wrote(content(id))
            try Data(recovering.cut(&random) ?? []).write(to: path)
            #expect(try folder.recoverLists().isEmpty, note)
            #expect(try folder.bytes(of: id)[...].same(as: kept[...]), note)
            try FileManager.default.removeItem(at: path)
        }
        print("power cuts of lists: \(cuts), \(torn) torn, \(longer) with more than was confirmed")
        #expect(torn > 50 && longer > 20)
    }
}
