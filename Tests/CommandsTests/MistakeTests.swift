import APNsProtocol
import TestSupport
import Testing

/// Words of the command line that are refused with 64, and words of the reason.
private let mistakes: [(words: [String], reason: String)] = [
    (["swep"], "did you mean 'sweep'?"),
    (["check", "--settings", "--grants"], "goes with neither --example nor --grants"),
    (["sweep", "--color", "red"], "'red' is invalid for '--color"),
    (["holds", "lst"], "did you mean 'list'?"),
    (["sweep", "--bogus"], "--bogus"),
    (["demo", "--config", "/nowhere"], "--config"),
    (["sweep", "--app", ""], "the value of --app is empty"),
    (["sweep", "--app="], "Missing value for '--app"),
    (["undo", ""], "an argument is empty"),
    (["holds", "show", ""], "an argument is empty"),
    (["explain", ""], "an argument is empty"),
    (["replay", ""], "an argument is empty"),
    (["holds", "show", ""], "See 'pushsweep holds show --help' for"),
    (["sweep", "--app", ""], "See 'pushsweep sweep --help' for"),
    (["sweep", "--connections", "17"], "connections"),
    (["sweep", "--critical-load", ""], "value of --critical-load is empty"),
    (["replay"], "name either a file or a batch"),
    (["replay", "--batch", ""], "the value of --batch is empty"),
    (["import", "/dev/null", "--from", "jsonl", "--map", "tokn=.a"], "is not FIELD=PATH"),
    (
        ["import", "/dev/null", "--from", "feedback", "--map", "token=.a"],
        "are for jsonl, csv and tsv"
    ),
    (["undo"], "name one of"),
    (["undo", "abc", "--list"], "name one of"),
    (["undo", "--since", "yesterday"], "is no time"),
    (["undo", "--token", "zz"], "not a device token"),
    (["holds", "discard", "abcd"], "--reason"),
    (["holds", "discard", "abcd", "--reason", " "], "must be one line of text"),
    (
        ["holds", "release", String(repeating: "a", count: 64), "--reason", " "],
        "one line"
    ),
    (["check", "somebody"], "goes with --grants only"),
    (["check", "--grants", "@h"], "needs a name"),
    (["check", "--grants", "--example"], "goes without --grants"),
    (["check", "--example=django", "--all"], "--all goes with --example"),
    (["check", "--example=Django"], "there is no example 'Django'; the names are short"),
    (["schema", "print", "--view", "--upgrade"], "--view"),
    (["schema", "print", "--view-name", "other"], "--view"),
    (["audit", "--output", "report"], "says no format"),
    (["audit", "--users-without-token", "x"], "needs --deep"),
    (["changes", "--since", ""], "--since is empty"),
    (["explain"], "name one of: a token"),
    (["explain", "a5", "--user", "u"], "name one of: a token"),
    (["explain", "--user", ""], "--user is empty"),
    (["undo", "--token", "a5a5…"], "not a device token"),
    (["audit", "--format", "csv"], "'csv' is invalid for '--format"),
    (["changes", "--since", "n1", "--limit", "0"], "from 1 to"),
    (["send", "--limit=9223372036854775808"], "from 1 to"),
    (["send", "--rate=nan"], "from 1 to"),
    (["preflight", "--query", "SELECT 1"], "Unknown option '--query'"),
    (["preflight", "--format", "junit"], "'junit' is invalid for '--format"),
    (["preflight", "--only-known"], "goes with --filter"),
    (["preflight", "--filter", "--probe"], "without --probe"),
    (["preflight", "--filter", "--format", "json"], "without --format"),
    (["preflight", "--max-stale", "101%"], "0% to 100%"),
    (["preflight", "--max-hours", "soon"], "hours"),
    (["preflight", "--memory", "1.5"], "whole MiB"),
    (["preflight", "--fail-on", "fatal"], "fail-on"),
]

@Suite("A mistake in the words of the command line")
struct MistakeTests {
    @Test(
        "is refused with 64, its reason and a closing line before anything is opened",
        arguments: mistakes)
    func refused(_ mistake: (words: [String], reason: String)) throws {
        let result = try Answered.by(mistake.words)
            .ends(64, mistake.reason, "code=64 ", "next=usage", for: "\(mistake.words)")
        #expect(result.output == "")
    }
}
