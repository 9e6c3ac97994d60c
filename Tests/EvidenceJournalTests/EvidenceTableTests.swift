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
    }

    @Test("a token's reports have numbers, the latest first, and reading resumes behind any")
    func numbersReports() throws {
        var random = SeededGenerator("numbered reports")
        let table = try EvidenceTable(in: folder)
        var times: [DeviceToken: [Int64]] = [:]
        for _ in 0..<400 {
            let token = DeviceToken.numbered(Int.random(in: 0...60, using: &random))
            let time = Int64.random(in: 0...9, using: &random)
            times[token, default: []].append(time)
            try table.add(token, EpochMilliseconds(time))
        }
        let expected = times.sorted { $0.key < $1.key }.flatMap { token, times in
            times.sorted(by: >).enumerated().map {
                NumberedReport(token: token, number: $0, time: EpochMilliseconds($1))
            }
        }
        let sorted = try table.seal()
        for place in [nil, 0, 1, 17, 200, 398, 399] as [Int?] {
            let last = place.map { (token: expected[$0].token, number: expected[$0].number) }
            var reports = sorted.reports(after: last)
            var found: [NumberedReport] = []
            while case let page = try reports.next(7), !page.isEmpty { found += page }
            let rest = Array(expected.dropFirst(place.map { $0 + 1 } ?? 0))
            #expect(found == rest, "seed \(random.seed)")
        }
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
