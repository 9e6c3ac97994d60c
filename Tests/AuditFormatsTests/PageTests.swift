import Encodings
import Foundation
@testable import Looks
@testable import Operations
import SecureTransport
import TestSupport
import Testing

@testable import AuditFormats

/// The pages of the samples, each made once.
private enum SamplePages {
    private static let pages = Dictionary(
        uniqueKeysWithValues: SampleReport.allCases.map { sample in
            (sample, Result { try sample.report.document(.html) })
        })

    static func text(_ sample: SampleReport) throws -> String {
        try #require(pages[sample]).get()
    }
}

@Suite("The page of an audit")
struct PageTests {
    /// Long texts of characters that grow when they are escaped, with a mark on each.
    private static let quotes = String(repeating: "\"\u{301}&<", count: 200)

    @Test("it is well-formed and has at most 300,000 bytes", arguments: SampleReport.allCases)
    func wellFormed(_ sample: SampleReport) throws {
        let page = try SamplePages.text(sample)
        #expect(ParsedPage(page).refusal == nil)
        #expect(page.utf8.count <= 300_000)
        if let folder = Environment.text("PUSHSWEEP_TEST_WRITE_PAGES") {
            try page.write(
                toFile: "\(folder)/\(sample.rawValue).html", atomically: true, encoding: .utf8)
        }
    }

    @Test("it matches the copy", arguments: [SampleReport.healthy, .troubled])
    func golden(_ sample: SampleReport) throws {
        let difference = try GoldenCopy(name: "audit-html-\(sample.rawValue)")
            .difference(from: try SamplePages.text(sample))
        #expect(difference == nil, "\(difference ?? "")")
    }

    @Test(
        "long lists of long names leave it below 300,000 bytes",
        arguments: [quotes, "\u{202E}e" + String(repeating: "\u{301}", count: 500)])
    func bounded(_ text: String) throws {
        let page = try SampleReport.filled(with: text, lists: 20).document(.html)
        #expect(page.utf8.count <= 300_000)
        #expect(ParsedPage(page).refusal == nil)
        #expect(page.contains("left out here"))
    }

    @Test("a page that is too large is written again with less of everything")
    func ladder() {
        for (wide, tight) in zip(PageLimits.ladder, PageLimits.ladder.dropFirst()) {
            let steps = [
                (wide.problems, tight.problems), (wide.quiet, tight.quiet), (wide.apps, tight.apps),
                (wide.sections, tight.sections), (wide.charts, tight.charts),
                (wide.rows, tight.rows),
                (wide.objects, tight.objects), (wide.sentence, tight.sentence),
                (wide.name, tight.name),
            ]
            #expect(steps.allSatisfy { $0.0 >= $0.1 } && steps.contains { $0.0 > $0.1 })
        }
        let last = PageLimits.ladder.last
        #expect(last?.charts == 0 && last?.problems == 10 && last?.sentence == 160)
    }

    @Test("texts with markup stay texts in every field")
    func hostile() throws {
        let page = ParsedPage(try SamplePages.text(.hostile))
        let plain = ParsedPage(try SampleReport.filled(with: "plain").document(.html))
        let known = Set(plain.elements.map(\.name))
        #expect(known.isDisjoint(with: ["script", "img", "a", "link", "iframe", "object", "form"]))
        #expect(Set(page.elements.map(\.name)) == known)
        #expect(
            Set(page.elements.flatMap(\.attributes.keys))
                == Set(plain.elements.flatMap(\.attributes.keys)))
        let lead = page.elements.first { $0.attributes["class"] == "lead" }
        #expect(lead?.text.hasPrefix("=<script>alert(1)</script>\"'&lt;{{verdict}}{{{x}}}") == true)
        #expect(lead?.text.contains("\\u{202E}\\u{200F}\\u{1B}[31m\\n") == true)
    }

    @Test("its policy allows its own style and nothing else")
    func policy() throws {
        let page = ParsedPage(try SamplePages.text(.troubled))
        let style = try #require(page.all("style").first)
        #expect(page.all("style").count == 1)
        let digest = try SHA256Digest()
        try digest.update(Array(style.text.utf8))
        let bytes = try #require(Hex.bytes(Array(try digest.hex().utf8)))
        let policy = page.all("meta").first {
            $0.attributes["http-equiv"] == "Content-Security-Policy"
        }
        #expect(
            policy?.attributes["content"]
                == "default-src 'none'; style-src 'sha256-\(Data(bytes).base64EncodedString())'; "
                + "base-uri 'none'; form-action 'none'")
        #expect(!style.text.contains("url(") && !style.text.contains("@import"))
    }

    @Test("it runs nothing and loads nothing", arguments: SampleReport.allCases)
    func inert(_ sample: SampleReport) throws {
        let text = try SamplePages.text(sample)
        #expect(!text.contains("<script"))
        if sample != .hostile { #expect(!text.contains("http://") && !text.contains("https://")) }
        let forbidden = ["href", "src", "style", "srcset", "action", "data", "xlink:href"]
        for element in ParsedPage(text).elements {
            #expect(
                !element.attributes.keys.contains { $0.hasPrefix("on") || forbidden.contains($0) })
        }
    }

    @Test(
        "where a phone shows a row as a list, each cell names its column",
        arguments: SampleReport.allCases)
    func lists(_ sample: SampleReport) throws {
        let tables = ParsedPage(try SamplePages.text(sample)).all("table")
        for table in tables {
            let headings = table.all("thead").flatMap { $0.all("th") }.map(\.text)
            let isList = headings.count > 3
            #expect(table.attributes["class"] == (isList ? "many" : "few"))
            for row in table.all("tbody").flatMap({ $0.all("tr") }) {
                let labels = row.all("td").compactMap { $0.attributes["data-label"] }
                #expect(labels == (isList ? Array(headings.dropFirst()) : []))
            }
        }
        #expect(sample == .empty || tables.contains { $0.attributes["class"] == "many" })
    }

    @Test("each chart has a name, a description and a table", arguments: SampleReport.allCases)
    func named(_ sample: SampleReport) throws {
        let page = ParsedPage(try SamplePages.text(sample))
        let identifiers = page.elements.compactMap { $0.attributes["id"] }
        #expect(Set(identifiers).count == identifiers.count)
        let cards = page.all("div").filter { $0.attributes["class"]?.hasPrefix("card") == true }
        #expect(cards.count >= 4)
        for card in cards {
            guard let chart = card.all("svg").first else {
                #expect(card.text.contains("There "))
                continue
            }
            #expect(chart.attributes["role"] == "img")
            let title = chart.attributes["aria-labelledby"] ?? "-"
            let description = chart.attributes["aria-describedby"] ?? "-"
            #expect(chart.all("title").first?.attributes["id"] == title)
            #expect(chart.all("desc").first?.attributes["id"] == description)
            #expect(chart.all("desc").first?.text.isEmpty == false)
            #expect(card.all("tbody").first?.children.isEmpty == false)
        }
    }

    @Test("the tables behind the charts have the sums of the report")
    func sums() throws {
        let report = SampleReport.troubled.report
        let page = ParsedPage(try report.document(.html))
        func sum(_ caption: String) -> Int {
            page.table(caption).compactMap { row in
                row.last.flatMap { Int($0.replacing(",", with: "")) }
            }.reduce(0, +)
        }
        let evidence = report.apps.flatMap(\.evidence)
            .map { $0.applied + $0.already + $0.newer + $0.unknown + $0.refused }.reduce(0, +)
        #expect(evidence > 1_000)
        #expect(sum("Evidence per day by source") == evidence)
        #expect(sum("Outcomes of sweeps") == evidence)
        #expect(
            sum("Stale tokens by age")
                == report.apps.flatMap(\.staleAges).map(\.count).reduce(0, +))
        #expect(
            sum("Ages of registrations")
                == report.apps.flatMap(\.registrationAges).map(\.count).reduce(0, +))
    }

    @Test("the bars are as long as their figures, and what is there can be seen")
    func bars() throws {
        let counts =
            [("a", 50), ("b", 100), ("c", 0), ("d", 1)].map { NamedCount($0.0, $0.1 * 1_000) }
            + [NamedCount("e", 1)]
        let chart = BarChart(
            title: "Title", id: "x", counts: counts, noun: "rows", unit: "Name", colour: "c")
        let page = ParsedPage(chart.html(in: content(AuditReport())).markup)
        func all(_ name: String, _ kind: String) -> [ParsedPage.Element] {
            page.all(name).filter { $0.attributes["class"] == kind }
        }
        #expect(
            all("rect", "bar").map { $0.attributes["width"] }
                == ["50%", "100%", "0%", "1%", "0.60%"])
        #expect(all("text", "n").map(\.text) == ["50,000", "100,000", "0", "1,000", "1"])
    }

    private func content(_ report: AuditReport) -> PageContent {
        PageContent(
            report: report, verdict: AuditHeadline(report), totals: Totals(report.apps),
            limits: PageLimits.ladder[0])
    }

    @Test("what is inserted into markup is text, unless it is markup itself")
    func escapes() {
        let name = "\"\u{301}><b x='&'>\u{FFFE}"
        let part: HTML = "<i>\(name)</i>"
        #expect(
            part.markup == "<i>&quot;\u{301}&gt;&lt;b x=&#39;&amp;&#39;&gt;\u{FFFD}</i>")
        let none: HTML? = nil
        let whole: HTML = "<p title=\"\(name)\">\(part)\(none)\([part, part])\(7)</p>"
        #expect(whole.markup.hasPrefix("<p title=\"&quot;\u{301}&gt;"))
        #expect(whole.markup.hasSuffix("\(part.markup)\(part.markup)\(part.markup)7</p>"))
    }

    @Test("problems come before figures, and what is well is folded")
    func order() throws {
        let text = try SamplePages.text(.troubled)
        let places = try ["Not healthy</h1>", "The certificate chat.pem ended", "id=\"figures\""]
            .map { try #require(text.range(of: $0)?.lowerBound) }
        #expect(places == places.sorted())
        let page = ParsedPage(text)
        let folded = page.all("details").map(\.text).joined()
        #expect(folded.contains("Apps, topics and environments agree."))
        #expect(!folded.contains("The certificate chat.pem ended on"))
        #expect(!page.all("details").contains { $0.attributes["open"] != nil })
    }

    @Test("it states period, version and the digest of the settings")
    func particulars() throws {
        let page = ParsedPage(try SamplePages.text(.healthy))
        let header = try #require(page.all("header").first).text
        #expect(header.contains("Period 2026-11-17 10:00 UTC to 2026-11-23 10:00 UTC"))
        #expect(header.contains("Version 0.4.0-dev"))
        #expect(header.contains("9f2c41d07be85a63"))
    }
}
