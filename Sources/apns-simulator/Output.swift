import Encodings
import Foundation

/// Lines of JSON on standard output, each written at once so that readers see whole lines.
enum Output {
    static func line(_ value: some Encodable) throws {
        var line = try JSONLine.bytes(value)
        line.append(UInt8(ascii: "\n"))
        try FileHandle.standardOutput.write(contentsOf: line)
    }
}
