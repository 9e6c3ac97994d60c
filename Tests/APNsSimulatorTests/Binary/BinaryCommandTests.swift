import APNsProtocol
import APNsSimulator
import Encodings
import Foundation
import SecureTransport
import TestSupport
import Testing

@Suite("The apns-simulator binary command")
struct BinaryCommandTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// B1 to B5, then a frame to a token that is rejected with this identifier.
    private func vectors(_ frame: BinaryFrame) -> [UInt8] {
        var bytes = BinaryVector.all.flatMap(\.bytes)
        frame.encode(into: &bytes)
        return bytes
    }

    @Test("openssl s_client sends the vectors, gets one error packet, and reads the dead token")
    func openssl() throws {
        let dead = Hex.text(FeedbackVector.ascending)
        let run = try Run([
            "binary", "--directory", folder.file("c"), "--feedback-port", "0",
            "--answer", "\(Numbered.token(77).hex)=8", "--answer", "\(dead)=dead:3",
        ])
        let greeting = try #require(try run.line())
        let bytes = vectors(try Numbered.frame(77)) + BinaryVector.all[0].bytes
        let answer = try foreignClient(greeting, identity(greeting), sending: bytes)
        #expect(Array(answer) == FeedbackVector.bytes("08080000004d"))
        let first = try #require(try run.line())
        #expect(first["frames"] as? Int == 7 && first["accepted"] as? Int == 5)
        #expect(first["status"] as? Int == 8 && first["identifier"] as? Int == 77)
        #expect(first["end"] as? String == "error-packet")

        var other = greeting
        other["listening"] = greeting["feedback"]
        // B1 to B4 have the same token, so the fourth found it dead.
        let list = try foreignClient(other, identity(greeting))
        #expect(list.count == 38 && list.suffix(32).elementsEqual(FeedbackVector.ascending))
        let served = try #require(try run.line()?["feedback"] as? [String: Any])
        #expect(served["bytes"] as? Int == 38)
        #expect(try foreignClient(other, identity(greeting)).isEmpty)
        _ = try run.line()
        run.terminate()
        let totals = try #require(try run.line()?["totals"] as? [String: Any])
        #expect(totals["accepted"] as? Int == 5 && totals["dead"] as? Int == 1)
        #expect(totals["discarded"] as? Int == 1)
        #expect(totals["rejected"] as? [String: Int] == ["8": 1])
        #expect(run.status() == 0)
    }

    @Test("bytes of openssl that are no frame are answered with status 128, and the line says why")
    func malformed() throws {
        let run = try Run(["binary", "--directory", folder.file("c")])
        let greeting = try #require(try run.line())
        let answer = try foreignClient(
            greeting, identity(greeting), sending: BinaryVector.oneByteLengths)
        #expect(Array(answer) == FeedbackVector.bytes("088000000000"))
        let line = try #require(try run.line())
        #expect((line["error"] as? String)?.contains("one byte") == true)
        #expect(line["accepted"] as? Int == 0)
    }

    @Test("tokens outside the file of known ones have status 8, and a bad file is named")
    func known() throws {
        let file = try folder.write("known", "\(Numbered.token(1).hex)\n\n")
        let run = try Run(["binary", "--directory", folder.file("c"), "--known", file])
        let greeting = try #require(try run.line())
        var bytes: [UInt8] = []
        for number in 1...3 { try Numbered.frame(number).encode(into: &bytes) }
        let answer = try foreignClient(greeting, identity(greeting), sending: bytes)
        #expect(Array(answer) == FeedbackVector.bytes("080800000002"))

        let bad = try folder.write("bad", "c9d4\nxyz\n")
        let result = try RunningTool(
            "apns-simulator", ["binary", "--directory", folder.file("c"), "--known", bad]
        ).wait()
        #expect(result.exit == 1)
        #expect(result.error.contains("\(bad): line 2"), "\(result.error)")
    }

    @Test(
        "a fate that cannot be read is refused with the ones that can",
        arguments: ["9x", "256", "8+", "8+x", "dead:-1", "", "8+1+1"])
    func badFates(fate: String) {
        let failure = #expect(throws: Refusal.self) { try BinaryFate(fate) }
        #expect(failure?.description.contains("8+500") == true)
    }

    @Test("fates are read as the help says")
    func fates() throws {
        #expect(try BinaryFate("ok") == .accept)
        #expect(try BinaryFate("10") == .reject(.shutdown))
        #expect(try BinaryFate("9") == .reject(BinaryStatus(9)))
        #expect(try BinaryFate("8+500") == .reject(.invalidToken, delay: .frames(500)))
        #expect(try BinaryFate("8+64000b") == .reject(.invalidToken, delay: .bytes(64_000)))
        #expect(try BinaryFate("dead") == .dead(after: 0))
        #expect(try BinaryFate("dead:3") == .dead(after: 3))
        #expect(try BinaryFate("close") == .close && BinaryFate("reset") == .reset)
    }

    @Test(
        "two hundred thousand notifications leave the memory of the command as it was",
        .disabled(if: Environment.isSanitized, "a sanitizer needs more than is measured"))
    func memory() throws {
        let run = try Run(["binary", "--directory", folder.file("c"), "--share", "1=dead"])
        let greeting = try #require(try run.line())
        let sender = BinaryClient(try Run.connect(greeting))
        var bytes: [UInt8] = []
        for number in 0..<1_000 { try Numbered.frame(number).encode(into: &bytes) }
        for _ in 0..<20 { try sender.write(bytes) }
        let before = try #require(try run.peakMemory())
        for _ in 0..<180 { try sender.write(bytes) }
        sender.finish()
        #expect(try sender.answer() == .nothing)
        #expect(try run.line()?["accepted"] as? Int == 200_000)
        let after = try #require(try run.peakMemory())
        #expect(after - before < 4_096, "\(before) KiB before, \(after) after")
    }
}
