import APNsSimulator
import ArgumentParser
import FoundationEssentials
import Operations

/// `pushsweep demo`: tells the main story on an embedded database in a few seconds.
struct DemoCommand: ParsableCommand, JobOptions {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Show a sweep, an explanation and an undo on an embedded database.",
        discussion: HelpText.whole(PackageResources.demo_txt))

    // The other common options do not apply: the demo has its own settings.
    @Option(
        help: ArgumentHelp(
            "Print the demonstration as text, or the report of each run as one line of JSON.",
            valueName: "text|json"))
    var format = OutputFormat.text

    @Flag(help: verboseHelp) var verbose = false

    @Flag(help: "Keep the folder with certificates, settings, database and journal.")
    var keep = false

    var config: String? { nil }
    var color: ColourChoice { .auto }

    func run() throws {
        try finish { context in
            let folder =
                FileManager.default.temporaryDirectory.path
                + "/pushsweep-demo-" + UUID().uuidString.prefix(8).lowercased()
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700])
            defer {
                if !keep { try? FileManager.default.removeItem(atPath: folder) }
            }
            let isJSON = format == .json
            let demo = try Demo(folder: folder, context: context, isJSON: isJSON)
            let status = try demo.play()
            if keep && isJSON { StandardStreams.message("kept: \(folder)") }
            if keep && !isJSON { StandardStreams.result(["", "kept: \(folder)"]) }
            return status
        }
    }
}
