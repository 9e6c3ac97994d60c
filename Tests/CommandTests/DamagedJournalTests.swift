import APNsProtocol
import APNsSimulator
import Database
import Foundation
import TestSupport
import Testing

@Suite("A journal with a damaged page")
struct DamagedJournalTests {
    /// Overwrites the first page of the table that holds the bytes of feeds.
    private func damage(_ stage: SweepStage) throws {
        let page = try #require(
            stage.journalRows("SELECT rootpage FROM sqlite_master WHERE name = 'chunk'").scalar?
                .count)
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: stage.journal))
        try file.seek(toOffset: UInt64(page - 1) * 16_384)
        try file.write(contentsOf: Data(repeating: 0xFF, count: 16_384))
        try file.close()
    }

    @Test(
        "the run that reads the damaged page sets the journal aside with 74; the next starts anew")
    func setAside() throws {
        let stage = try SweepStage(.sqlite, dead: 100)
        try stage.sweep("--dry-run").ends(75)
        try damage(stage)
        // The journal opens and lists its feeds; only their bytes are lost.
        let broken = try stage.sweep().ends(
            74, "code=74 stage=state", "it was set aside as \(stage.journal).damaged-")
        #expect(broken.error.ranges(of: "it was set aside as").count == 1, "\(broken.error)")
        try stage.sweep().ends(0, "is a damaged journal that was set aside")
        let names = try FileManager.default.contentsOfDirectory(atPath: stage.state)
        #expect(names.count { $0.contains(".damaged-") && !$0.hasSuffix("-journal") } == 1)
    }
}
