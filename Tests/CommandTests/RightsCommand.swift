import APNsProtocol
import TestSupport

/// A command that an account is printed for. A word `@name` stands for what the scene calls so, `@fresh` for a file
/// that is not there yet.
struct RightsCommand: Hashable {
    /// The name in the table.
    let name: String
    let words: [String]
    /// Whether it decides, changes or sends: a right that it lacks ends it.
    let decides: Bool

    /// Whether it is tried without a single column of a table too: of the many looks a few are.
    var readsColumns: Bool {
        decides
            || ["check", "send-dry", "undo-dry", "audit", "explain-sent", "sweep-dry"].contains(
                name)
    }

    private init(_ name: String, _ words: String, decides: Bool) {
        (self.name, self.decides) = (name, decides)
        self.words = words.split(separator: " ").map(String.init)
    }

    private static func acts(_ name: String, _ words: String) -> RightsCommand {
        RightsCommand(name, words, decides: true)
    }

    private static func looks(_ name: String, _ words: String) -> RightsCommand {
        RightsCommand(name, words, decides: false)
    }

    /// The commands of an account that sweeps.
    static let ofSweeper: [RightsCommand] = [
        acts("sweep", "sweep --format json"),
        acts("replay", "replay @list --app chat --format json"),
        acts(
            "import",
            "import @log --app chat --from jsonl --map token=.token,time=.timestamp,status=.status --format json"
        ),
        acts("release", "holds release @digest --format json"),
        acts("discard", "holds discard @held --reason no --format json"),
        acts("unquarantine", "quarantine discard @unusable --format json"),
    ]

    /// The commands of an account that takes back, and of one that purges.
    static let ofUndoer: [RightsCommand] = [
        acts("undo", "undo @run --format json"), acts("undo-marks", "undo @marked --format json"),
        looks("undo-dry", "undo @run --dry-run --format json"),
        looks("undo-list", "undo --list --format json"),
    ]

    static let ofPurger: [RightsCommand] = [
        acts("purge", "purge --format json"), looks("purge-dry", "purge --dry-run --format json"),
    ]

    /// The commands of an account that sends.
    static let ofSender: [RightsCommand] = [
        acts("send", "send --format json"), looks("send-dry", "send --dry-run --format json"),
        looks("check", "check --format json"),
    ]

    /// The commands of an account that only looks.
    static let ofLooker: [RightsCommand] = [
        acts("preflight", "preflight --app chat --read-only --tokens-from @tokens --format json"),
        acts("gate-open", "preflight --app chat --read-only --tokens-from @living --format json"),
        acts("gate-queue", "preflight --app chat --read-only --format json"),
        acts("filter", "preflight --app chat --filter --read-only --tokens-from @tokens"),
        acts(
            "filter-known",
            "preflight --app chat --filter --only-known --read-only --tokens-from @tokens"),
        looks("audit", "audit --format json"), looks("audit-deep", "audit --deep --format json"),
        looks("suspects", "audit --suspects @fresh --format json"),
        looks("check", "check --format json"),
        looks("explain", "explain \(hex(6)) --format json"),
        looks("explain-bad", "explain \(hex(13)) --format json"),
        looks("explain-held", "explain \(hex(71)) --format json"),
        looks("explain-sent", "explain \(hex(20)) --format json"),
        looks("explain-back", "explain \(hex(1)) --format json"),
        looks("explain-user", "explain --user one --format json"),
        looks("explain-start", "explain \(hex(6).prefix(20)) --format json"),
        looks("environments", "environments --format json"), looks("init", "init --format json"),
        looks("sweep-dry", "sweep --dry-run --format json"),
        looks("replay-dry", "replay @list --app chat --dry-run --format json"),
        looks(
            "import-dry",
            "import @log --app chat --from jsonl --map token=.token,time=.timestamp,status=.status --dry-run --format json"
        ),
        looks("undo-dry", "undo @run --dry-run --format json"),
        looks("undo-list", "undo --list --format json"),
        looks("purge-dry", "purge --dry-run --format json"),
        looks("send-dry", "send --dry-run --format json"),
        looks("holds", "holds list --format json"), looks("hold", "holds show @held --format json"),
        looks("changes", "changes --since 2020-01-01"),
        looks("quarantine", "quarantine list --format json"),
        looks("unusable", "quarantine list @unusable --format json"),
        looks("export", "quarantine export @unusable @fresh --format json"),
    ]

    private static func hex(_ number: Int) -> String { DeviceToken.numbered(number).hex }
}
