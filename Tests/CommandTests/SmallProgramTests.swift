import Foundation
import TestSupport
import Testing

// One import of the whole of Foundation, here or in an update of a library, brings its copy of Unicode's data: 37 MB in
// each program, and a tenth of the memory of a start. No code asks for it, so nothing else would show.

@Suite("A small program")
struct SmallProgramTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "../..").standardizedFileURL

    @Test("no source imports more of Foundation than its essentials")
    func imports() throws {
        let sources = Self.root.appending(path: "Sources")
        let files = try #require(
            FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
        var read = 0
        for case let file as URL in files where file.pathExtension == "swift" {
            read += 1
            for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
            where line.utf8.starts(with: "import".utf8) || line.utf8.first == UInt8(ascii: "@") {
                #expect(
                    line.firstMatch(of: /^(@\w+ )?import (struct |class )?Foundation\b/) == nil
                        && !line.hasPrefix("import FoundationInternationalization"), "\(file.path)")
            }
        }
        #expect(read > 400)
    }

    @Test(
        "the programs need no ICU and not the whole of Foundation",
        .enabled(if: ForeignProgram.ldd.isInstalled),
        arguments: ["pushsweep", "apns-simulator"])
    func libraries(_ name: String) throws {
        let program = RunningTool.folderOfTests.appendingPathComponent(name).path
        let needed = try ForeignProgram.ldd.run([program]).ends(0).output
        // Built for tests the libraries of Swift are linked dynamically.
        #expect(needed.contains("libFoundationEssentials.so"), "\(needed)")
        for library in ["lib_FoundationICU", "libFoundation.so", "FoundationInternationalization"] {
            #expect(!needed.contains(library), "\(needed)")
        }
    }
}
