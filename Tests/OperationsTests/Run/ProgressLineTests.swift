import Operations
import Testing

@Suite("The line of progress")
struct ProgressLineTests {
    /// The last line of a job that counts so much each second.
    private func line(
        _ phrase: String, each second: Int, for seconds: Int, of total: Int?, columns: Int
    ) -> String {
        var meter = ProgressMeter()
        var text = ""
        for now in 0...seconds {
            text = meter.line(phrase, now * second, of: total, at: .seconds(now))
                .text(columns: columns)
        }
        return text
    }

    @Test("it has the count, the share, the rate and the remaining time")
    func whole() {
        #expect(
            line("applying a/production (tuples)", each: 500, for: 4, of: 100_000, columns: 80)
                == "applying a/production (tuples): 2000 of 100000 (2 %), 500/s, 3:16 left")
        #expect(line("sending", each: 3, for: 2, of: nil, columns: 80) == "sending: 6, 3.0/s")
        #expect(
            line("x", each: 1, for: 1, of: 10_000, columns: 80)
                == "x: 1 of 10000 (0 %), 1.0/s, 2:46:39 left")
    }

    @Test("sizes are megabytes, and the rate is, too")
    func sizes() {
        #expect(
            line("importing a.log (bytes)", each: 12_000_000, for: 4, of: 292_000_000, columns: 90)
                == "importing a.log (bytes): 48.0 MB of 292.0 MB (16 %), 12.0 MB/s, 0:21 left")
    }

    @Test("the steps of an import are one count that never falls and ends at the size")
    func steps() {
        var whole = WholeProgress("importing a.log (bytes)", size: 1_000)
        var last = 0
        for (phrase, counts) in [
            ("importing (bytes)", [0, 500, 1_000]),
            ("storing chat/production (reports)", [10, 60]),
            ("storing chat/sandbox (reports)", [1, 60]),
            ("comparing chat/production (reports)", [30]),
            ("suspects of chat/production (reports)", [20]),
            ("applying chat/production (reports)", [1, 60]), ("comparing x (reports)", [1]),
        ] {
            for count in counts {
                let total = phrase.hasPrefix("importing") ? 1_000 : 60
                let done = whole.count(phrase, count, of: total)
                #expect((done ?? -1) >= last, "\(phrase) \(count)")
                last = done ?? last
            }
        }
        #expect(last == 1_000)
        let (other, unknown) = (
            whole.count("tokens with a mark", 1, of: 2), whole.count("storing x", 1, of: nil)
        )
        #expect(other == nil && unknown == nil)
    }

    @Test("in 40 columns the share, the rate and the remaining time stay")
    func narrow() {
        let text = line(
            "applying chat/production (tuples)", each: 45_000, for: 3, of: 1_000_000, columns: 39)
        #expect(text == "applying chat/…: 13 %, 45k/s, 0:20 left")
        #expect(
            line("importing (bytes)", each: 904_000, for: 3, of: 60_000_000, columns: 39)
                == "importing: 4 %, 904k/s, 1:04 left")
        for columns in 0...90 {
            let text = line(
                "applying chat/production (tuples)", each: 45_000, for: 3, of: 1_000_000,
                columns: columns)
            #expect(text.count <= columns, "\(text)")
        }
    }

    @Test("the rate is that of the last seconds, and a pause makes it fall to nothing")
    func window() {
        var meter = ProgressMeter()
        for now in 0...20 { _ = meter.line("x", now * 1_000, of: nil, at: .seconds(now)) }
        #expect(
            meter.line("x", 20_000, of: nil, at: .seconds(25)).text(columns: 80)
                == "x: 20000, 500/s")
        #expect(
            meter.line("x", 20_000, of: nil, at: .seconds(60)).text(columns: 80) == "x: 20000, 0/s")
        // A job that cannot end at this rate has no remaining time.
        #expect(
            meter.line("x", 20_000, of: 40_000, at: .seconds(90)).text(columns: 80)
                == "x: 20000 of 40000 (50 %), 0/s")
    }

    @Test("another job, or the next one of the same kind, starts with no rate")
    func another() {
        var meter = ProgressMeter()
        for now in 0...5 { _ = meter.line("x", now * 1_000, of: nil, at: .seconds(now)) }
        #expect(meter.line("y", 9_000, of: nil, at: .seconds(6)).text(columns: 80) == "y: 9000")
        #expect(meter.line("y", 10, of: nil, at: .seconds(8)).text(columns: 80) == "y: 10")
    }

    @Test("a total that was too small, or of nothing, does no harm")
    func oddTotals() {
        var meter = ProgressMeter()
        _ = meter.line("x", 0, of: 5, at: .zero)
        #expect(
            meter.line("x", 10, of: 5, at: .seconds(2)).text(columns: 80)
                == "x: 10 of 5 (100 %), 5.0/s")
        #expect(
            meter.line("x", 10, of: 0, at: .seconds(3)).text(columns: 80).hasPrefix("x: 10, 3.3"))
    }

    @Test("control characters in a name are escaped before the line is measured")
    func controlCharacters() {
        let text = line(
            "sending a\nb\u{1B}[2J", each: 1, for: 3, of: nil, columns: 20)
        #expect(text.count <= 20)
        #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 })
    }
}
