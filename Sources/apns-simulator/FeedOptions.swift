import APNsSimulator
import ArgumentParser
import Foundation

/// What is served.
struct FeedOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Serve the bytes of this file as they are. May be given several times.",
            valueName: "file"))
    var feed: [String] = []

    @Option(help: "Serve these bytes, in hex. May be given several times.")
    var hex: [String] = []

    @Option(
        help: ArgumentHelp(
            "Serve the tuples in this file. May be given several times.",
            discussion: "One `<seconds since 1970> <token in hex>` per line; # starts a comment.",
            valueName: "file"))
    var tuples: [String] = []

    @Option(help: ArgumentHelp("Serve this many computed tuples.", valueName: "count"))
    var generate: Int?

    @Option(help: "Choose the computed tokens.")
    var seed: UInt64 = 1

    @Option(
        help: ArgumentHelp(
            "Bytes per computed token; given several times, lengths are used in turn.",
            valueName: "bytes"))
    var length: [UInt16] = [32]

    @Option(
        help: ArgumentHelp(
            "Time of the first computed tuple, in seconds since 1970.", valueName: "seconds"))
    var from: UInt32 = 1_700_000_000

    @Option(
        help: ArgumentHelp(
            "Seconds the computed times run through before they start again.",
            valueName: "seconds"))
    var span: UInt32 = 86400

    func validate() throws {
        if let generate, generate < 0 {
            throw ValidationError("--generate takes a number of tuples, not \(generate)")
        }
    }

    /// The lists in the order of the help text.
    func sources() throws -> [FeedSource] {
        var sources: [FeedSource] = []
        for path in feed {
            guard FileManager.default.isReadableFile(atPath: path) else {
                throw RunFailure("opening the feed \(path): no such readable file")
            }
            sources.append(.file(path))
        }
        for text in hex {
            sources.append(try .hex(text))
        }
        for path in tuples {
            guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
                throw RunFailure("opening the tuples \(path): no such readable text file")
            }
            sources.append(try .lines(text, of: path))
        }
        if let generate {
            sources.append(
                .generated(
                    GeneratedFeed(
                        count: generate, seed: seed, lengths: length, firstTime: from,
                        timeSpan: span)))
        }
        return sources
    }
}

/// Why the command cannot run.
struct RunFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
