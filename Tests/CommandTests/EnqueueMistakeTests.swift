import APNsProtocol
import TestSupport
import Testing

@Suite("A mistake in the arguments of enqueue")
struct EnqueueMistakeTests {
    private static let hex = DeviceToken.numbered(1).hex

    private func enqueue(_ stage: SendStage, _ words: String...) throws -> ToolResult {
        try stage.start(["enqueue", "--app", "chat", "--alert", "x"] + words).wait()
    }

    private func queued(_ stage: SendStage) throws -> Int {
        try stage.database.count("SELECT COUNT(*) FROM push_queue")
    }

    @Test("a bad --token refuses the whole command and is named by its position, without its text")
    func malformedToken() throws {
        let stage = try SendStage()
        for (words, place) in [
            (["--token", "abcdefxyz"], "--token is"), (["--token", ""], "--token is"),
            (["--token", Self.hex, "--token", "abcdefxyz"], "--token number 2 is"),
        ] {
            let result = try stage.start(["enqueue", "--alert", "x"] + words).wait()
            #expect(result.exit == 64, "\(result.error)")
            #expect(result.error.contains("\(place) no device token in hex"), "\(result.error)")
            #expect(!result.error.contains("abcdefxyz") && result.output.isEmpty)
            #expect(result.closingLine.hasSuffix("next=usage"))
        }
        #expect(try queued(stage) == 0)
    }

    @Test("an empty --user or --alert is a usage error")
    func emptyWords() throws {
        let stage = try SendStage()
        #expect(try enqueue(stage, "--user", "").exit == 64)
        let alert = try stage.start(["enqueue", "--alert", "", "--token", Self.hex]).wait()
        #expect(alert.exit == 64)
        #expect(alert.error.contains("--alert is empty"), "\(alert.error)")
        #expect(try queued(stage) == 0)
    }

    @Test("a user without tokens is named; the exit code is 0 only where something is queued")
    func unknownUser() throws {
        let stage = try SendStage()
        try stage.database.register(.numbered(1), at: 1_600_000_000_000, user: "ada")
        let nobody = try enqueue(stage, "--user", "nobody")
        #expect(nobody.exit == 65, "\(nobody.error)")
        #expect(nobody.error.contains("found no living token of user 'nobody'; check --user"))
        #expect(
            nobody.closingLine
                == "code=65 stage=enqueue pending=0 applied=0 held=0 next=usage")
        let both = try enqueue(stage, "--user", "nobody", "--user", "ada")
        #expect(both.exit == 0)
        #expect(both.error.contains("user 'nobody'"), "\(both.error)")
        #expect(try queued(stage) == 1)
    }

    @Test("a bad line in a file of tokens is left out and named by its number")
    func malformedLines() throws {
        let stage = try SendStage()
        let bad = (0..<7).map { "zz\($0)" }.joined(separator: "\n")
        let file = try stage.folder.write("tokens.txt", "\(Self.hex)\n\n\(bad)\n\(Self.hex)\n")
        let result = try enqueue(stage, "--tokens-from", file)
        #expect(result.exit == 65)
        #expect(result.error.contains("lines 3, 4, 5, 6, 7 and 2 more, no"), "\(result.error)")
        #expect(result.error.contains("tokens.txt") && !result.error.contains("zz"))
        #expect(result.output == "chat/production: queued 2, left out 7 that are not tokens\n")
    }

    @Test("an error about the payload names the option; one about a push type lists the types")
    func payload() throws {
        let stage = try SendStage()
        let type = try enqueue(stage, "--token", Self.hex, "--push-type", "alrt")
        #expect(type.exit == 64)
        #expect(type.error.contains("the types are alert, background"), "\(type.error)")
        let file = try stage.folder.write("body.json", "[1]")
        let body = try stage.start(["enqueue", "--payload", file, "--token", Self.hex]).wait()
        #expect(body.exit == 64)
        #expect(
            body.error.contains("the payload of --payload \(file) is no JSON object"),
            "\(body.error)")
    }
}
