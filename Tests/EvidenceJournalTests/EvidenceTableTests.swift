import APNsProtocol
import EvidenceJournal
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("The evidence table")
struct EvidenceTableTests {
    private let temporary: TemporaryFolder
    private let folder: StateFolder

    init() throws {
        temporary = try TemporaryFolder()
        folder = try StateFolder(temporary.file("state"))
    }

    private func all(_ stream: SortedEvidence.Stream, by limit: Int) throws -> [TokenEvidence] {
        var stream = stream
        var result: [TokenEvidence] = []
        while case let batch = try stream.next(limit), !batch.isEmpty { result += batch }
        return result
    }

    @Test("the table groups, orders and resumes as evidence in memory does")
    func agreesWithList() throws {
        var random = SeededGenerator("evidence table")
        let evidence = try (0..<3_000).map { _ in
            TokenEvidence(
                token: try #require(
                    DeviceToken(
                        random.bytes(Int.random(in: 1...40, using: &random)).map { $0 & 3 })),
                time: EpochMilliseconds(Int64.random(in: 0...9, using: &random)))
        }
        let table = try EvidenceTable(in: folder)
        for item in evidence { try table.add(item.token, item.time) }
        var list = EvidenceList(evidence)
        let expected = list.next(.max)
        let sorted = try table.seal()
        #expect(sorted.count == expected.count)
        #expect(try all(sorted.stream(), by: 7) == expected, "seed \(random.seed)")
        let middle = expected[expected.count / 2].token
        var rest = EvidenceList(evidence, after: middle)
        #expect(try all(sorted.stream(after: middle), by: 900) == rest.next(.max))
        #expect(
            try all(sorted.stream(from: middle), by: 900)
                == expected.filter { $0.token >= middle })
        #expect(
            try all(sorted.stream(from: expected[3].token, after: middle), by: 900)
                == expected.filter { $0.token > middle })
        #expect(
            try all(sorted.stream(from: middle, after: expected[3].token), by: 900)
                == expected.filter { $0.token >= middle })
    }

    @Test("the table leaves no file behind")
    func cleansUp() throws {
        do {
            let table = try EvidenceTable(in: folder)
            try table.add(try #require(DeviceToken([1])), EpochMilliseconds(1))
            #expect(try table.seal().count == 1)
            #expect(FileManager.default.fileExists(atPath: folder.file("scratch.sqlite")))
        }
        #expect(!FileManager.default.fileExists(atPath: folder.file("scratch.sqlite")))
    }
}
