import APNsProtocol
import Database
import Foundation
import TestSupport
import Testing
import TokenHygiene

@Suite("A log that is imported again and again while it grows")
struct GrownLogTests {
    private static let before: Int64 = 1_600_000_000_000
    private static let dead: Int64 = 1_700_000_000_000

    /// The forms of a log, of which one has a line break within quotes and one is compressed.
    enum Form: String, CaseIterable, Sendable {
        case jsonl, csv, tsv, gzip

        var option: String { self == .gzip ? "jsonl" : rawValue }

        var header: String {
            switch self {
            case .jsonl, .gzip: ""
            case .csv: "\u{FEFF}token,note,time,status\n"
            case .tsv: "token\ttime\tstatus\n"
            }
        }

        func line(_ token: String, time: Int64 = dead) -> String {
            switch self {
            case .jsonl, .gzip: "{\"token\":\"\(token)\",\"time\":\(time),\"status\":410}\n"
            case .csv: "\(token),\"two\nz lines\",\(time),410\n"
            case .tsv: "\(token)\t\(time)\t410\n"
            }
        }
    }

    /// A growing log, and what its last import read of it.
    private final class Log {
        let (stage, form): (IntakeStage, Form)
        private let path: String
        private(set) var text: String

        init(
            _ engine: TestEngine, _ form: Form = .jsonl, floor: Int = 1_000_000,
            others: [String] = []
        ) throws {
            stage = try IntakeStage(engine, floor: floor, others: others)
            try stage.database.register(0..<60, at: before)
            (self.form, text) = (form, form.header)
            path = stage.folder.file("push.log")
        }

        func add(_ numbers: Range<Int>, time: Int64 = dead) {
            add(numbers.map { form.line(hex($0), time: time) }.joined())
        }

        func add(_ more: String) { text += more }

        func replace(_ other: String) { text = other }

        /// Imports what the log has now, and returns how many reports were read, or nil where the content was known.
        @discardableResult
        func take(
            _ options: String..., ends exit: Int32 = 0, host: [String: String] = [:]
        ) throws -> Int? {
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            var name = path
            if form == .gzip {
                name = path + ".gz"
                let gzip = Process()
                gzip.executableURL = URL(fileURLWithPath: "/bin/gzip")
                gzip.arguments = ["-kf", path]
                try gzip.run()
                gzip.waitUntilExit()
            }
            let map =
                options.contains("--map")
                ? [] : ["--map", "token=token,time=time,status=status"]
            let app = options.contains("--app") ? [] : ["--app", "chat"]
            let result = try stage.run(
                ["import", name, "--from", form.option, "--format", "json"] + map + app + options,
                environment: host
            ).ends(exit)
            let intake = try #require(result.json["intake"] as? [String: Any], "\(result.error)")
            return intake["known"] as? Bool == true ? nil : intake["reports"] as? Int
        }

        /// The same out of a pipe.
        func takePiped(ends exit: Int32 = 0) throws -> Int? {
            let pipe = stage.folder.file("pipe")
            unlink(pipe)
            try #require(mkfifo(pipe, 0o600) == 0)
            let run = try stage.start([
                "import", pipe, "--from", form.option, "--app", "chat", "--map",
                "token=token,time=time,status=status", "--format", "json",
            ])
            let end = try FileHandle(forWritingTo: URL(fileURLWithPath: pipe))
            try end.write(contentsOf: Data(text.utf8))
            try end.close()
            let result = run.wait().ends(exit)
            let intake = try #require(result.json["intake"] as? [String: Any], "\(result.error)")
            return intake["known"] as? Bool == true ? nil : intake["reports"] as? Int
        }

        /// Imports what the log had last, for people.
        func told() throws -> ToolResult {
            try stage.run(
                "import", path, "--from", form.option, "--app", "chat", "--map",
                "token=token,time=time,status=status")
        }

        /// Imports what the log has now, of which nothing is taken.
        func refused(_ exit: Int32, _ words: String) throws {
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            try told().ends(exit, words)
        }

        func stored() throws -> Int { try stage.database.rows(of: "pushsweep_report") }
    }

    @Test(
        "each line is counted and stored once, whatever the form, on any host",
        arguments: [(TestEngine.sqlite, Form.allCases)]
            + [(.mariaDB, [Form.csv])].filter { TestEngine.available.contains($0.0) })
    func once(_ engine: TestEngine, _ forms: [Form]) throws {
        for form in forms {
            let log = try Log(engine, form)
            log.add(0..<10)
            #expect(try log.take() == 10, "\(form)")
            #expect(try log.take() == nil, "\(form)")
            for start in [10, 20, 30] {
                log.add(start..<(start + 10))
                #expect(try log.take(host: log.stage.host("\(start)")) == 10, "\(form) \(start)")
            }
            #expect(try log.stored() == 40, "\(form)")
            #expect(try log.stage.marked == 40, "\(form)")
            #expect(
                try log.stage.database.texts(
                    "SELECT SUM(applied), SUM(already) FROM pushsweep_batch")
                    == [["40", "0"]])
        }
    }

    @Test(
        "a line that cannot be used is in the quarantine once, under its number, and stays away when it is discarded"
    )
    func quarantine() throws {
        let log = try Log(.sqlite)
        log.add("{\"token\":\"no token\",\"status\":410,\"time\":1}\n")
        log.add(0..<3)
        #expect(try log.take(ends: 65) == 4)
        log.add(3..<6)
        #expect(try log.take() == 3)
        log.add("\n{\"token\":\"none\",\"status\":410,\"time\":1}\n")
        #expect(try log.take(ends: 65) == 1)
        let places = try log.stage.database.texts(
            "SELECT place FROM pushsweep_quarantine ORDER BY place")
        #expect(places == [["1"], ["9"]])
        for batch in try log.stage.database.texts(
            "SELECT DISTINCT name FROM pushsweep_quarantine AS q JOIN pushsweep_batch AS b ON b.number = q.batch"
        ) {
            try log.stage.run("quarantine", "discard", batch[0]).ends(0)
        }
        log.add(6..<7)
        #expect(try log.take() == 1)
        #expect(try log.stage.database.rows(of: "pushsweep_quarantine") == 0)
    }

    @Test("a last line whose end is still to come is read, and read again when it is whole")
    func halfLine() throws {
        let log = try Log(.sqlite)
        log.add(0..<5)
        let line = log.form.line(hex(5))
        log.add(String(line.dropLast(30)))
        #expect(try log.take(ends: 65) == 6)
        log.add(String(line.suffix(30)))
        #expect(try log.take() == 1)
        #expect(try log.stage.marked == 6)
        // One that is whole but for its line break counts at once.
        log.add(String(log.form.line(hex(6)).dropLast()))
        #expect(try log.take() == 1)
        #expect(try log.take() == nil)
        #expect(try log.stage.marked == 7)
    }

    @Test(
        "a last row that was cut, or lacks its line break, is read again when it is whole",
        arguments: [Form.csv, .tsv], [1, 4])
    func halfRow(_ form: Form, _ rows: Int) throws {
        let log = try Log(.sqlite, form)
        log.add(0..<(rows - 1))
        let row = form.line(hex(rows - 1))
        // Cut within its last field, then without its line break, then whole.
        log.add(String(row.dropLast(2)))
        _ = try log.take()
        log.add("0")
        #expect(try log.take() == 1)
        log.add("\n" + form.line(hex(rows)))
        #expect(try log.take() == 2)
        log.add(form.line(hex(rows + 1)))
        #expect(try log.take() == 1)
        #expect(try log.stage.marked == rows + 2)
    }

    @Test("a pipe that brings the whole log again is read from where the log grew")
    func piped() throws {
        let log = try Log(.sqlite)
        log.add("{\"token\":\"none\",\"status\":410,\"time\":1}\n")
        log.add(0..<5)
        #expect(try log.takePiped(ends: 65) == 6)
        log.add(5..<7)
        #expect(try log.takePiped() == 2)
        log.add(7..<8)
        #expect(try log.take() == 1)
        #expect(try log.stage.database.rows(of: "pushsweep_quarantine") == 1)
        #expect(try log.stage.marked == 8)
    }

    @Test("a length that nobody wrote is passed over, and the log is read whole")
    func impossibleLength() throws {
        let log = try Log(.sqlite)
        log.add(0..<3)
        #expect(try log.take() == 3)
        log.add(3..<4)
        for length in [Int64(-5), 0, .max] {
            try log.stage.database.execute(
                "UPDATE pushsweep_intake SET length = ?", [.integer(length)])
            #expect(try log.take("--dry-run") == 4)
        }
    }

    @Test("what became of a content is told by its last import")
    func latest() throws {
        let log = try Log(.sqlite, floor: 1)
        log.add(0..<40)
        #expect(try log.take(ends: 3) == 40)
        try log.stage.run("holds", "discard", "--all", "--reason", "a mistake").ends(0)
        try log.told().says("imported before and discarded; --again takes it once more")
        #expect(try log.take("--again", ends: 3) == 40)
        #expect(try log.take(ends: 3) == nil)
    }

    @Test("a log without a death is known, too, and so is what is read behind it")
    func quiet() throws {
        let log = try Log(.sqlite)
        let quiet = String(
            repeating: "{\"level\":\"info\",\"message\":\"sent to nobody\"}\n", count: 50)
        log.add(quiet)
        #expect(try log.take() == 50)
        #expect(try log.take() == nil)
        log.add(quiet)
        #expect(try log.take() == 50)
        log.add(0..<2)
        #expect(try log.take() == 2)
        #expect(try log.stage.database.rows(of: "pushsweep_intake") == 3)
    }

    @Test(
        "options are tried behind a beginning that proved nothing, and not behind one that brought evidence"
    )
    func proven() throws {
        let log = try Log(.sqlite)
        let seconds = (0..<3).map { log.form.line(hex($0), time: 1_700_000_000) }.joined()
        log.add("{\"level\":\"info\",\"message\":\"started\"}\n")
        #expect(try log.take() == 1)
        log.add(seconds)
        try log.refused(64, "--time-unit s")
        #expect(try log.stage.database.rows(of: "pushsweep_quarantine") == 0)
        log.replace("")
        log.add(5..<8)
        #expect(try log.take() == 3)
        log.add(seconds)
        #expect(try log.take(ends: 65) == 3)
    }

    @Test("another map, another app and a person who asks for it again read all of it")
    func others() throws {
        let log = try Log(.sqlite, others: ["mail"])
        log.add(0..<4)
        #expect(try log.take() == 4)
        log.add(4..<6)
        #expect(try log.take("--map", "token=token,time=time") == 6)
        #expect(try log.take("--app", "mail") == 6)
        #expect(try log.take("--again") == 6)
        #expect(try log.take() == nil)
    }

    @Test(
        "a log that was written anew is read from the longest beginning that was taken, or all of it"
    )
    func rewritten() throws {
        let log = try Log(.sqlite)
        log.add(0..<5)
        let first = log.text
        #expect(try log.take() == 5)
        log.add(5..<10)
        #expect(try log.take() == 5)
        // Cut off behind the first part, and gone on with otherwise.
        log.replace(first)
        log.add(20..<23)
        #expect(try log.take() == 3)
        // The same first line, and then other ones.
        log.replace(log.form.line(hex(0)))
        log.add(30..<40)
        #expect(try log.take() == 11)
        log.replace(log.form.line(hex(41)))
        #expect(try log.take() == 1)
        #expect(try log.stage.marked == 10 + 3 + 10 + 1)
    }

    @Test("a dry run reads what has grown and remembers nothing")
    func dry() throws {
        let log = try Log(.sqlite)
        log.add(0..<4)
        #expect(try log.take() == 4)
        log.add(4..<6)
        for _ in 0..<2 { #expect(try log.take("--dry-run") == 2) }
        #expect(try log.take() == 2)
    }

    @Test(
        "random logs that grow by random pieces end as one that was imported whole",
        arguments: Form.allCases)
    func random(_ form: Form) throws {
        var random = SeededGenerator("grown logs, \(form)")
        let log = try Log(.sqlite, form)
        var (whole, pieces) = (form.header, [String]())
        for number in 0..<40 {
            whole += form.line(
                hex(number % 25), time: Self.dead + Int64.random(in: 0...3, using: &random))
        }
        // Where a row is cut in its quotes the file is refused, as one of which a part is missing.
        let bytes = Array(whole.utf8)
        let ends = bytes.indices.filter {
            bytes[$0] == UInt8(ascii: "\n")
                && ($0 + 1 == bytes.count || form != .csv || bytes[$0 + 1] != UInt8(ascii: "z"))
        }
        var last = 0
        while last < bytes.count {
            let next =
                (ends.filter { $0 >= last + 70 }.randomElement(using: &random) ?? bytes.count - 1)
                + 1
            pieces.append(String(decoding: bytes[last..<next], as: UTF8.self))
            last = next
        }
        log.replace("")
        var read = 0
        for piece in pieces {
            log.add(piece)
            read += try log.take() ?? 0
        }
        #expect(read == 40, "seed \(random.seed)")
        #expect(try log.stored() == 40, "seed \(random.seed)")
    }
}
