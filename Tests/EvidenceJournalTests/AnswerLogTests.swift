import APNsProtocol
import Foundation
import TestSupport
import Testing
import TokenHygiene

@testable import EvidenceJournal

@Suite("The log of answers")
struct AnswerLogTests {
    private let temporary: TemporaryFolder
    private let folder: StateFolder
    private static let contents = (1...5).map { [UInt8](repeating: UInt8($0), count: $0 * 7) }

    init() throws {
        temporary = try TemporaryFolder()
        folder = try StateFolder(temporary.file("state"))
    }

    private func log(_ queue: UInt64 = 7) throws -> AnswerLog {
        try AnswerLog(in: folder, queue: queue)
    }

    @Test("records outlast their writer, in order, each queue's in a file of its own")
    func kept() throws {
        try log().keep([(1, Self.contents[0], false), (2, Self.contents[1], false)])
        try log().keep([(1, Self.contents[2], false)])
        #expect(try log().records().records == Array(Self.contents.prefix(3)))
        #expect(try log(8).records().records.isEmpty)
        try log().empty()
        #expect(try log().records().records.isEmpty)
        let mode =
            try FileManager.default.attributesOfItem(
                atPath: folder.file("answers-0000000000000007"))[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test("the file is emptied once every claim in it is released, and not before")
    func released() throws {
        let log = try log()
        try log.keep([(1, Self.contents[0], false), (2, Self.contents[1], false)])
        try log.release(1)
        try log.release(3)
        #expect(try log.records().records.count == 2 && log.isWaiting)
        try log.keep([(1, Self.contents[2], false)])
        try log.release(2)
        #expect(try log.records().records.count == 3)
        try log.release(1)
        #expect(try log.records().records.isEmpty && !log.isWaiting)
        try log.keep([(4, Self.contents[3], false)])
        #expect(try log.records().records == [Self.contents[3]])
    }

    @Test("reports of a claim that is released do not come back, and those that follow them do")
    func releasedReports() throws {
        let log = try log()
        func kept(_ claim: Int64, _ row: Int64) -> KeptResults {
            KeptResults(
                claim: claim, from: ReportOrigin(.noApp, gateway: "g"),
                [DeliveryResult(key: row, .gone(reason: "Unregistered"))],
                heard: [
                    HeardReport(
                        row: row, token: .numbered(Int(row)), source: .unregistered,
                        time: EpochMilliseconds(1))
                ])
        }
        try log.keep([kept(1, 10), kept(2, 20)])
        try log.syncReports()
        try log.release(1)
        #expect(try self.log().leftAnswers().answers == [kept(2, 20)])
        try log.keep([kept(1, 11)])
        #expect(try self.log().leftAnswers().answers == [kept(1, 11), kept(2, 20)])
        #expect(AnswerLog.isLeft(in: folder))
        try log.release(1)
        try log.release(2)
        #expect(try self.log().leftAnswers().answers.isEmpty && !AnswerLog.isLeft(in: folder))
    }

    @Test("a file that is cut at any byte has the whole records before it")
    func cut() throws {
        let log = try log()
        try log.keep(Self.contents.map { (1, $0, false) })
        let bytes = try Array(
            Data(contentsOf: URL(fileURLWithPath: folder.file("answers-0000000000000007"))))
        var ends = [0]
        for content in Self.contents { ends.append(ends[ends.count - 1] + 8 + content.count) }
        for count in 0...bytes.count {
            let read = AnswerLog.records(bytes[..<count])
            let whole = ends.count { $0 <= count } - 1
            #expect(read.records == Array(Self.contents.prefix(whole)), "\(count) bytes")
            #expect(read.isDamaged == !ends.contains(count), "\(count) bytes")
        }
    }

    @Test(
        "a byte that has changed costs its own record, and those behind it where it was in a length"
    )
    func changed() throws {
        try log().keep(Self.contents.map { (1, $0, false) })
        let bytes = try Array(
            Data(contentsOf: URL(fileURLWithPath: folder.file("answers-0000000000000007"))))
        var starts = [0]
        for content in Self.contents { starts.append(starts[starts.count - 1] + 8 + content.count) }
        for place in bytes.indices {
            var changed = bytes
            changed[place] ^= 0x10
            let read = AnswerLog.records(changed[...])
            let number = starts.lastIndex { $0 <= place } ?? 0
            let isInLength = place - starts[number] < 4
            #expect(read.isDamaged, "byte \(place)")
            let others = Self.contents.indices.filter { isInLength ? $0 < number : $0 != number }
            #expect(read.records == others.map { Self.contents[$0] }, "byte \(place)")
        }
    }

    @Test("a damaged file is set aside, and no run reads it again")
    func setAside() throws {
        do {
            let log = try log()
            try log.keep(Self.contents.map { (1, $0, false) })
            let kept = try log.setAside()
            #expect(try Data(contentsOf: URL(fileURLWithPath: kept)).count > 100)
        }
        #expect(!AnswerLog.isLeft(in: folder))
        #expect(try log().records().records.isEmpty)
    }

    @Test(
        "what a sender left is counted by app without its lock, and nothing of it where a sender lives"
    )
    func leftReports() throws {
        let chat = Partition(app: "chat", environment: "sandbox")
        let heard = (1...3).map {
            HeardReport(
                row: $0, token: .numbered(Int($0)), source: .unregistered,
                time: EpochMilliseconds(1))
        }
        let kept = KeptResults(
            claim: 1, from: ReportOrigin(chat, gateway: "g"),
            heard.map { DeliveryResult(key: $0.row, .gone(reason: "Unregistered")) }, heard: heard)
        try log().keep([kept])
        #expect(try AnswerLog.leftReports(in: folder) == [chat: 3])
        let visited = StateFolder(visiting: folder.folder)
        #expect(visited.isHeld && folder.isHeld)
        do { _ = try StateFolder(temporary.file("other")) }
        #expect(!StateFolder(visiting: try PrivateFolder(temporary.file("other"))).isHeld)
    }

    @Test("a link in place of the file is refused")
    func link() throws {
        let target = try temporary.write("elsewhere", "")
        try FileManager.default.createSymbolicLink(
            atPath: folder.file("answers-0000000000000007"), withDestinationPath: target)
        let failure = #expect(throws: JournalFailure.self) { try log() }
        #expect(failure?.code == .permission)
    }
}
