import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("A list whose file is damaged")
struct DamagedListTests {
    @Test("it is set aside with 74, the other lists go on, and every later run names it")
    func setAside() throws {
        let stage = try SweepStage(.sqlite, dead: 100)
        try stage.sweep("--dry-run").ends(75)
        let list = try #require(stage.lists().first?.id)
        let path = "\(stage.state)/list-\(list)"
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        try file.seek(toOffset: 66_000)
        try file.write(contentsOf: Data([0xFF, 0xFF]))
        try file.close()
        let damaged = try Data(contentsOf: URL(fileURLWithPath: path))
        let broken = try stage.sweep().ends(
            74, "code=74 stage=decode", "the list \(path) is damaged",
            "set aside as \(path).damaged-")
        #expect(broken.error.ranges(of: "set aside as").count == 1, "\(broken.error)")
        try stage.sweep().ends(0, "is damaged and was set aside")
        let names = try FileManager.default.contentsOfDirectory(atPath: stage.state)
            .filter { $0.contains(".damaged-") }
        #expect(names.count == 1)
        let kept = try Data(contentsOf: URL(fileURLWithPath: "\(stage.state)/\(names.first ?? "")"))
        #expect(kept == damaged)
    }
}
