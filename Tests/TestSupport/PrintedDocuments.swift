// The forms of the JSON documents are in docs/json, and every document that a test makes the program
// print must have its form. A validator that we trust is a Python library, and a process for each
// document would cost more than the tests. So the tests only keep what was printed, and scripts/test
// validates all of it with one process afterwards: scripts/lib/documents.py.

import Encodings
import Foundation
import Glibc

/// The JSON documents that the programs under test printed.
package enum PrintedDocuments {
    /// The file of this process in the folder `PUSHSWEEP_TEST_DOCUMENTS`; nil without one.
    private static let file: Int32? = Environment.text("PUSHSWEEP_TEST_DOCUMENTS").flatMap {
        let file = open("\($0)/\(getpid()).jsonl", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        return file < 0 ? nil : file
    }

    private struct Document: Encodable {
        let words: [String]
        let line: String
    }

    /// Keeps the whole lines of JSON that a command printed.
    package static func keep(_ output: String, of words: [String]) {
        let isJSON =
            words.first == "changes" ? !words.contains("csv") : words.contains("json")
        guard let file, isJSON else { return }
        var kept = ""
        for line in output.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        where line.hasPrefix("{") {
            kept += Document(words: words, line: String(line)).jsonLine + "\n"
        }
        // One call: other threads append to the same file.
        _ = kept.utf8CString.withUnsafeBytes { write(file, $0.baseAddress, $0.count - 1) }
    }
}
