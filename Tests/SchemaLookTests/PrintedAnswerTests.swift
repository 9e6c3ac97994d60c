import Encodings
import Foundation
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

// What a person copies from a question into a shell has to answer that question and to do nothing else, whatever
// a column, a table or a value is called.

@Suite("Printed answers")
struct PrintedAnswerTests {
    private static let texts: [String] = {
        let signs = [
            "'", "\"", "`", "\\", "$", "!", "/", ",", ";", "#", "{", "[", "|", "<", "&", "=", "%",
            "*",
            "?", "~", "-", "\n", "\r", "\t", " ", "é", "\u{37E}", "\u{1FEF}",
        ]
        let marks = ["", "\u{301}", "\u{200D}", "\u{20E3}", "\u{FE0F}", "x"]
        let odd = signs.flatMap { sign in marks.flatMap { [sign + $0, "a\(sign)\($0)b"] } }
        return odd + [
            "$(touch pwned)", "off; $(touch pwned)", "--mark", "--", "-", "none", "a b", "a\0b", "",
            "a'\u{301}; touch pwned", "e\u{301}", "on\u{202E}", "WORD",
        ]
    }()

    private static let answers: [LookAnswers] = {
        func one(_ change: (inout LookAnswers) -> Void) -> LookAnswers {
            var answers = LookAnswers()
            change(&answers)
            return answers
        }
        return texts.flatMap { text in
            [
                one { $0.mark = .flag(column: text, living: "on", dead: "off") },
                one { $0.mark = .flag(column: "c", living: text, dead: "off") },
                one { $0.mark = .flag(column: "c", living: "on", dead: text) },
                one { $0.mark = .time(text) }, one { $0.registeredAt = .column(text) },
                one { $0.platform = .rows(column: text, word: "ios") },
                one { $0.platform = .rows(column: "c", word: text) },
            ]
        }
    }()

    private static func option(_ answers: LookAnswers) -> String? {
        answers.mark.map { LookAnswers.option($0) } ?? answers.registeredAt.map {
            LookAnswers.option($0)
        } ?? answers.platform.flatMap { LookAnswers.option($0) }
    }

    /// The bytes that an answer means, each part by itself.
    private static func bytes(_ answers: LookAnswers) -> [[UInt8]] {
        var parts: [String] = []
        switch answers.mark {
        case .flag(let column, let living, let dead): parts = [column, living, dead]
        case .time(let column): parts = [column]
        case .beside, nil: break
        }
        if case .column(let name) = answers.registeredAt { parts.append(name) }
        if case .rows(let column, let word) = answers.platform { parts += [column, word] }
        return parts.map { Array($0.utf8) }
    }

    @Test("an option that is printed reads back through a shell as the column and the words")
    func options() throws {
        let printed = Self.answers.compactMap { answers in
            Self.option(answers).map { (answers, $0) }
        }
        // Most texts can be said so.
        #expect(printed.count * 2 > Self.answers.count)
        #expect(printed.allSatisfy { !PlainText.hasControlCharacter($0.1) })
        let folder = try TemporaryFolder()
        let script = printed.map { "printf '%s\\0' \($0.1)\nprintf '\\0\\0'\n" }.joined()
        try folder.write("words", "cd \(folder.path.shellWord)\n\(script)", mode: 0o600)
        let result = try RunningTool(
            program: URL(fileURLWithPath: "/bin/sh"), [folder.file("words")]
        ).wait()
        #expect(result.exit == 0 && result.error.isEmpty, "\(result.error)")
        #expect(!FileManager.default.fileExists(atPath: folder.file("pwned")))
        let lines = result.output.components(separatedBy: "\0\0\0").dropLast()
        #expect(lines.count == printed.count)
        for (line, (meant, option)) in zip(lines, printed) {
            let words = line.components(separatedBy: "\0")
            let text = words.count == 2 ? words[1] : String(words[0].drop { $0 != "=" }.dropFirst())
            var read = LookAnswers()
            switch words[0].prefix(6) {
            case "--mark": try read.setMark(text)
            case "--plat": try read.setPlatform(text)
            default: try read.setRegistration(text)
            }
            #expect(Self.bytes(read) == Self.bytes(meant), "\(option)")
        }
    }

    @Test("what no command line can say has no option")
    func none() {
        let beyond: [LookAnswers.Mark] = [
            .flag(column: "a=b", living: "on", dead: "off"),
            .flag(column: "c", living: "a/b", dead: "off"),
            .flag(column: "c", living: "on", dead: "a/b"),
            .flag(column: "c", living: "a\nb", dead: "off"),
            .flag(column: "c", living: "", dead: "x"),
            .time("none"), .time("a=b/c"), .time("a\0"), .time("a\rb"),
        ]
        for mark in beyond { #expect(LookAnswers.option(mark) == nil, "\(mark)") }
        #expect(LookAnswers.option(LookAnswers.Registration.column("none")) == nil)
        #expect(LookAnswers.option(.rows(column: "a=b", word: "ios")) == nil)
        #expect(LookAnswers.option(.flag(column: "c", living: "a=b", dead: "x=y")) != nil)
    }

    @Test("two words that differ in their bytes alone are two words")
    func alike() throws {
        let database = try TokenDatabase(.sqlite)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token TEXT, state TEXT)")
        for device in Device.some(mixed: false) {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?)",
                [
                    .integer(Int64(device.number)), .text(device.token),
                    .text(device.isGone ? "e\u{301}" : "\u{E9}"),
                ])
        }
        let line = try #require(try database.firstLook().1).questions.first { $0.part == .living }
        #expect(
            line?.answer?.isExactly("--mark 'state=\u{E9}/e\u{301}'") == true, "\(line as Any)")
    }

    @Test(
        "a value that no setting can have is asked about without a line to take",
        arguments: TestEngine.available)
    func control(_ engine: TestEngine) throws {
        let database = try TokenDatabase(engine)
        try database.execute(
            "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), kind VARCHAR(20), "
                + "state VARCHAR(20))")
        for device in Device.some(mixed: true) {
            try database.execute(
                "INSERT INTO devices VALUES (?, ?, ?, ?)",
                [
                    .integer(Int64(device.number)), .text(device.token),
                    .text(device.isApple ? "ios\n" : "android"),
                    .text(device.isGone ? "off\n" : "on"),
                ])
        }
        let proposal = try #require(try database.firstLook().1)
        #expect(proposal.mapping.platform.column == nil)
        let platform = try #require(proposal.questions.first { $0.part == .platform })
        #expect(platform.answer == nil && platform.setting == "{column: is_apple, value: 1}")
        try database.execute(try #require(platform.statement))
        let made = try database.texts("SELECT is_apple FROM devices ORDER BY id")
        #expect(made == Device.some(mixed: true).map { [$0.isApple ? "1" : "0"] })
        let state = try #require(proposal.questions.first { $0.column == "state" })
        #expect(state.answer == nil && state.setting == nil)
        #expect(state.reason.contains("no setting and no option can have the control character"))
    }
}
