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

    private func all(_ stream: GroupedReports<SortedEvidence.Reports>, by limit: Int) throws
        -> [TokenEvidence]
    {
        var stream = stream
        var result: [TokenEvidence] = []
        while case let batch = try stream.next(limit), !batch.isEmpty {
            result += batch.map(\.summed)
        }
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
        let table = EvidenceTable(in: folder)
        for item in evidence { try table.add(item.token, item.time) }
        var list = EvidenceList(evidence)
        let expected = list.next(.max)
        let sorted = try #require(try table.seal().first)
        #expect(sorted.count == expected.count)
        #expect(try all(sorted.stream(), by: 7) == expected, "seed \(random.seed)")
        let middle = expected[expected.count / 2].token
        var rest = EvidenceList(evidence, after: middle)
        #expect(try all(sorted.stream(after: middle), by: 900) == rest.next(.max))
    }

    @Test("a token's reports have numbers, the latest first, and reading resumes behind any")
    func numbersReports() throws {
        var random = SeededGenerator("numbered reports")
        let table = EvidenceTable(in: folder)
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
        let sorted = try #require(try table.seal().first)
        for place in [nil, 0, 1, 17, 200, 398, 399] as [Int?] {
            let last = place.map { (token: expected[$0].token, number: expected[$0].number) }
            var reports = sorted.reports(after: last)
            var found: [NumberedReport] = []
            while case let page = try reports.next(7), !page.isEmpty { found += page }
            let rest = Array(expected.dropFirst(place.map { $0 + 1 } ?? 0))
            #expect(found == rest, "seed \(random.seed)")
        }
    }

    @Test("groups stand apart, and parts that cannot be used beside them")
    func groups() throws {
        let table = EvidenceTable(in: folder)
        for number in 0..<600 {
            try table.add(.numbered(number % 7), EpochMilliseconds(Int64(number)), to: number % 3)
            try table.keep(
                QuarantinedPart(
                    place: 600 - number, bytes: Array("line".utf8), length: 9, reason: "r\(number)",
                    token: number % 2 == 0 ? .numbered(number) : nil))
        }
        let groups = try table.seal(groups: 4)
        #expect(groups.map(\.reports) == [200, 200, 200, 0])
        #expect(groups.map(\.count) == [7, 7, 7, 0])
        for (place, group) in groups.enumerated() {
            var reports = group.reports()
            let times = try reports.next(1_000).map(\.time.rawValue)
            #expect(Set(times) == Set((0..<600).filter { $0 % 3 == place }.map { Int64($0) }))
            #expect(
                try all(group.stream(), by: 3).map(\.token)
                    == (0..<group.count).map { .numbered($0) })
        }
        let parts = try table.parts(after: 2, limit: 2)
        #expect(parts.map(\.place) == [3, 4] && parts.map(\.reason) == ["r597", "r596"])
        #expect(parts.map(\.token) == [nil, .numbered(596)] && parts[0].isCut)
        #expect(try table.parts(after: 599, limit: 9).map(\.place) == [600])
        #expect(try table.parts(after: nil, limit: 1).map(\.place) == [1])
    }

    @Test("the table leaves no file behind")
    func cleansUp() throws {
        let table = EvidenceTable(in: folder, runLength: 4)
        for number in 0..<4 { try table.add(.numbered(number), EpochMilliseconds(1)) }
        #expect(try ScratchFile.all(in: folder).isEmpty, "what fits in memory is in no file")
        try table.add(.numbered(4), EpochMilliseconds(1))
        var files = try ScratchFile.all(in: folder)
        #expect(files.map(\.names) == [0] && files.map(\.mode) == [0o600])
        var sorted = try table.seal().first
        #expect(sorted?.count == 5)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["lock"])
        withExtendedLifetime((table, sorted)) {}
        sorted = nil
        files = try ScratchFile.all(in: folder)
        #expect(files.count == 1, "the table has it still")
    }
}
