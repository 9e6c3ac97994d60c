import Foundation

/// A kept copy of the output of a version.
package struct GoldenCopy {
    private let name: String
    private let file: URL

    /// Finds a copy by its name without ending, in the folder `Copies` beside the file of the test.
    package init(name: String, test: String = #filePath) {
        self.name = name
        file = URL(filePath: test).deletingLastPathComponent()
            .appending(path: "Copies/\(name).txt")
    }

    /// The copy; an empty text where none is kept. PUSHSWEEP_TEST_WRITE_GOLDEN=1 keeps `text`
    /// instead.
    private func kept(writing text: String) throws -> String {
        if Environment.text("PUSHSWEEP_TEST_WRITE_GOLDEN") == "1" {
            try text.write(to: file, atomically: true, encoding: .utf8)
        }
        return (try? String(contentsOf: file, encoding: .utf8)) ?? ""
    }

    /// The first lines in which a text differs from the copy; nil where it does not.
    ///
    /// - Throws: where the copy cannot be written.
    package func difference(from text: String) throws -> String? {
        let kept = try kept(writing: text).split(separator: "\n", omittingEmptySubsequences: false)
        let now = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard kept != now else { return nil }
        let place =
            zip(kept, now).enumerated().first { $0.element.0 != $0.element.1 }?.offset
            ?? min(kept.count, now.count)
        func line(_ lines: [Substring]) -> Substring {
            place < lines.count ? lines[place] : "(end)"
        }
        return "\(name), line \(place + 1):\n  kept: \(line(kept))\n  now:  \(line(now))"
    }
}
