import APNsProtocol
import EvidenceJournal
import Foundation
import TestSupport
import Testing
import TokenHygiene

/// A file without a name of a state folder, which this process has open.
struct ScratchFile {
    let descriptor: Int32
    let size: Int
    let names: Int
    let mode: Int

    static func all(in folder: StateFolder) throws -> [ScratchFile] {
        let open = "/proc/self/fd/"
        return try FileManager.default.contentsOfDirectory(atPath: open).compactMap { name in
            // Other tests close theirs meanwhile.
            guard
                let path = try? FileManager.default.destinationOfSymbolicLink(atPath: open + name),
                path.hasPrefix(folder.file("scratch-")), let descriptor = Int32(name)
            else { return nil }
            var facts = stat()
            guard fstat(descriptor, &facts) == 0 else { return nil }
            return ScratchFile(
                descriptor: descriptor, size: Int(facts.st_size), names: Int(facts.st_nlink),
                mode: Int(facts.st_mode & 0o777))
        }
    }

    /// Puts another file in its place, for everything that uses it.
    func become(_ path: String, _ flags: Int32) throws {
        let other = open(path, flags | O_CLOEXEC)
        try #require(other >= 0 && dup2(other, descriptor) == descriptor)
        close(other)
    }
}

@Suite("Evidence that does not fit in memory")
struct SortedEvidenceTests {
    private let temporary: TemporaryFolder
    private let folder: StateFolder

    init() throws {
        temporary = try TemporaryFolder()
        folder = try StateFolder(temporary.file("state"))
    }

    /// What a table should say of a group, from what was added.
    private struct Model {
        var added: [(group: Int, token: DeviceToken, time: Int64)] = []
        var wanted: Set<DeviceToken> = []

        func tokens(_ group: Int) -> Set<DeviceToken> {
            Set(added.filter { $0.group == group }.map(\.token))
        }

        func reports(
            _ group: Int, among tokens: Set<DeviceToken>? = nil
        ) -> [NumberedReport] {
            let sorted = added.filter { $0.group == group && tokens?.contains($0.token) != false }
                .sorted { ($0.token, $1.time) < ($1.token, $0.time) }
            var reports: [NumberedReport] = []
            for item in sorted {
                let before = reports.last.flatMap { $0.token == item.token ? $0.number : nil }
                reports.append(
                    NumberedReport(
                        token: item.token, number: (before ?? -1) + 1,
                        time: EpochMilliseconds(item.time)))
            }
            return reports
        }
    }

    private func read(_ reports: SortedEvidence.Reports, by limit: Int) throws -> [NumberedReport] {
        var (reports, found) = (reports, [NumberedReport]())
        while case let page = try reports.next(limit), !page.isEmpty {
            #expect(page.count <= limit)
            found += page
        }
        return found
    }

    /// One of few tokens, of any length.
    private func token(_ random: inout SeededGenerator) -> DeviceToken? {
        let usual = [1, 7, 8, 9, 31, 32, 33, 40, 64, 100]
        let length =
            Int.random(in: 0..<300, using: &random) == 0
            ? Int.random(in: 60_000...65_535, using: &random) : usual.one(&random)
        // Most begin with the same bytes, and one may be the beginning of another.
        var bytes = [UInt8](repeating: 0, count: length)
        for _ in 0..<Int.random(in: 0...2, using: &random) {
            bytes[Int.random(in: 0..<length, using: &random)] = [0, 1, 128, 255].one(&random)
        }
        return DeviceToken(bytes)
    }

    @Test(
        "runs of any length give what sorting everything at once gives, from any position",
        arguments: [1, 2, 7, 64, 1_000])
    func agreesWithModel(runLength: Int) throws {
        var random = SeededGenerator("sorted evidence in runs of \(runLength)")
        for course in 0..<6 {
            let size = [0, runLength - 1, runLength, runLength + 1, 3 * runLength, 700][course]
            let table = EvidenceTable(in: folder, runLength: runLength)
            var model = Model()
            for _ in 0..<size {
                let item = (
                    Int.random(in: 0..<3, using: &random), try #require(token(&random)),
                    [Int64.min, -1, 0, 1, .max].one(&random)
                )
                model.added.append(item)
                try table.add(item.1, EpochMilliseconds(item.2), to: item.0)
            }
            let note: Comment = "seed \(random.seed), course \(course)"
            let groups = try table.seal(groups: 4)
            #expect(try ScratchFile.all(in: folder).isEmpty || size > runLength / 40, note)
            for (place, group) in groups.enumerated() {
                let expected = model.reports(place)
                #expect(group.reports == expected.count, note)
                #expect(group.count == model.tokens(place).count, note)
                #expect(try read(group.reports(), by: 97) == expected, note)
                for _ in 0..<8 {
                    let stranger = try #require(token(&random))
                    let known = expected.isEmpty ? nil : expected.one(&random)
                    let position = (
                        token: [known?.token ?? stranger, stranger].one(&random),
                        number: Int.random(in: -1...3, using: &random)
                    )
                    let rest = expected.filter { ($0.token, $0.number) > position }
                    #expect(try read(group.reports(after: position), by: 13) == rest, note)
                    var stream = group.stream(after: position.token)
                    var list = EvidenceList(
                        expected.map { TokenEvidence(token: $0.token, time: $0.time) },
                        after: position.token)
                    while case let page = try stream.next(11), !page.isEmpty {
                        #expect(page.map(\.summed) == list.next(11), note)
                    }
                    #expect(list.next(1).isEmpty, note)
                }
            }
        }
    }

    @Test(
        "wanted tokens stay of some groups, by whichever runs they come", arguments: [1, 9, 5_000])
    func wanted(runLength: Int) throws {
        var random = SeededGenerator("wanted tokens in runs of \(runLength)")
        let table = EvidenceTable(in: folder, runLength: runLength)
        var model = Model()
        for number in 0..<900 {
            let item = (
                Int.random(in: 0..<4, using: &random),
                DeviceToken.numbered(Int.random(in: 0..<200, using: &random)), Int64(number)
            )
            model.added.append(item)
            try table.add(item.1, EpochMilliseconds(item.2), to: item.0)
            if number % 10 == 0 {
                let some = (0..<2).map { _ in
                    DeviceToken.numbered(Int.random(in: 100..<300, using: &random))
                }
                model.wanted.formUnion(some)
                try table.want(some)
            }
        }
        table.keepWanted(ofGroups: [0, 2], besides: [3])
        let groups = try table.seal(groups: 4)
        let kept = model.wanted.union(model.tokens(3))
        for (place, group) in groups.enumerated() {
            let expected = model.reports(place, among: place % 2 == 0 ? kept : nil)
            #expect(group.reports == expected.count, "seed \(random.seed)")
            #expect(group.count == Set(expected.map(\.token)).count)
            #expect(try read(group.reports(), by: 50) == expected)
            let middle = expected[expected.count / 2]
            let rest = Array(expected.drop { $0.token <= middle.token })
            #expect(try read(group.reports(after: (middle.token, .max)), by: 50) == rest)
        }
    }

    @Test("parts that cannot be used come back as they were kept, by their places")
    func parts() throws {
        var random = SeededGenerator("parts in runs")
        let table = EvidenceTable(in: folder, runLength: 100)
        let parts = (-50..<150).map { place in
            QuarantinedPart(
                place: place * 1_000_000_007,
                bytes: random.bytes(Int.random(in: 0...9_000, using: &random)),
                length: Int.random(in: 0...100_000, using: &random), reason: "ré\(place)",
                token: token(&random))
        }
        let extremes = [Int.min, .max].map {
            QuarantinedPart(place: $0, bytes: [], reason: "", token: nil)
        }
        for part in (parts + extremes).shuffled(using: &random) { try table.keep(part) }
        _ = try table.seal()
        let expected = [extremes[0]] + parts + [extremes[1]]
        var (found, last): ([QuarantinedPart], Int?) = ([], nil)
        while case let page = try table.parts(after: last, limit: 7), !page.isEmpty {
            (found, last) = (found + page, page.last?.place)
        }
        #expect(found == expected, "seed \(random.seed)")
        #expect(try table.parts(after: 5, limit: 1) == [expected[52]])
    }

    @Test(
        "the tokens at the most frequent time are counted exactly, among more times than memory counts"
    )
    func oneTime() throws {
        let table = EvidenceTable(in: folder, runLength: 3_000)
        let times = EvidenceTable.runLength / 2 + 500
        for number in 0..<2 * times {
            let time = EpochMilliseconds(Int64(number % times))
            try table.add(.numbered(number), time)
            // An earlier report of a token does not count.
            if number < 4_000 { try table.add(.numbered(number), EpochMilliseconds(-1)) }
        }
        for number in 0..<3 { try table.add(.numbered(-1 - number), EpochMilliseconds(77)) }
        let sorted = try #require(try table.seal().first)
        #expect(sorted.count == 2 * times + 3)
        #expect(try sorted.tokensAtOneTime() == 5)
        let none = try #require(try EvidenceTable(in: folder).seal().first)
        #expect(try none.tokensAtOneTime() == 0)
    }

    @Test("all but one run of the reports is on the disk, however many they are")
    func flat() throws {
        let table = EvidenceTable(in: folder, runLength: 500)
        for number in 0..<20_000 {
            try table.add(.numbered(number), EpochMilliseconds(0))
            guard number % 1_000 == 999 else { continue }
            let size = try ScratchFile.all(in: folder).map(\.size)
            #expect(size == [(number + 1 - 500) * 44])
        }
        // Long tokens fill a run sooner.
        let long = EvidenceTable(in: folder, runLength: 500)
        let bytes = [UInt8](repeating: 7, count: 10_000)
        for _ in 0..<4 { try long.add(try #require(DeviceToken(bytes)), EpochMilliseconds(0)) }
        #expect(try ScratchFile.all(in: folder).map(\.size).contains(2 * 10_012))
        withExtendedLifetime((table, long)) {}
    }

    @Test("a full disk is a failure in words, while reports are added and while they are sorted")
    func full() throws {
        let table = EvidenceTable(in: folder, runLength: 10)
        for number in 0..<15 { try table.add(.numbered(number), EpochMilliseconds(0)) }
        let file = try #require(try ScratchFile.all(in: folder).first)
        try file.become("/dev/full", O_RDWR)
        let words = "sorting reports in a temporary file in \(folder.path): No space left on device"
        expectFailure(.inputOutput, words + "; free disk space and run again") {
            for number in 15..<30 { try table.add(.numbered(number), EpochMilliseconds(0)) }
        }
        expectFailure(.inputOutput, words) { try table.seal() }
    }

    @Test("what cannot be read back, or is not what was written, is a failure in words")
    func unreadable() throws {
        func sorted() throws -> (SortedEvidence, ScratchFile) {
            let table = EvidenceTable(in: folder, runLength: 1_000)
            for number in 0..<3_000 { try table.add(.numbered(number), EpochMilliseconds(0)) }
            let sorted = try #require(try table.seal().first)
            return (sorted, try #require(try ScratchFile.all(in: folder).first))
        }
        let words = "reading sorted reports in a temporary file in \(folder.path): "
        var (evidence, file) = try sorted()
        try file.become("/dev/null", O_WRONLY)
        expectFailure(.inputOutput, words) { try read(evidence.reports(), by: 100) }
        (evidence, file) = try sorted()
        var reports = evidence.reports()
        #expect(try reports.next(100).count == 100)
        try #require(ftruncate(file.descriptor, 20_000) == 0)
        expectFailure(.inputOutput, "check the disk, then run again") {
            try read(reports, by: 100)
        }
        (evidence, file) = try sorted()
        let noise = [UInt8](repeating: 0xff, count: file.size)
        try #require(pwrite(file.descriptor, noise, noise.count, 0) == noise.count)
        expectFailure(.inputOutput, words) { try read(evidence.reports(), by: 100) }
        expectFailure(.inputOutput, words) {
            try read(evidence.reports(after: (.numbered(9), 0)), by: 100)
        }
    }
}
