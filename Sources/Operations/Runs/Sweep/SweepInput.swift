import Database
import Encodings
import EvidenceFiles
import EvidenceJournal
import FoundationEssentials
import Glibc
import SecureTransport
import TokenHygiene

/// A separate folder for the dry run of a file. The list never enters the real one, so a killed
/// trial leaves nothing that a later run would apply.
final class TrialFolder {
    private static let name = "trial"

    /// The folder. It is inside the state folder, since the file holds tokens.
    let folder: StateFolder

    /// Makes the folder of a trial, and replaces one that was left; nil when the plan is not a trial.
    /// The lock of the state folder prevents two trials at once.
    init?(for plan: SweepPlan, in state: StateFolder) throws {
        Self.removeRemains(in: state)
        guard plan.isTrial else { return nil }
        folder = try StateFolder(Self.name, in: state)
    }

    private static func removeRemains(in state: StateFolder) {
        let path = state.file(name)
        if access(path, F_OK) == 0 { try? FileManager.default.removeItem(atPath: path) }
    }

    deinit { try? FileManager.default.removeItem(atPath: folder.path) }
}

// What another program writes to `import -` or `replay -` exists once: `nc feedback | pushsweep replay -`
// takes a list that the gateway forgets. So a pipe goes this way:
//
//   1. before its first byte, ask whether the run may take it: lock, journal, database, lease. Then let
//      the lock go, since a pipe may take its time and must keep no other run from its work
//   2. read it to its end into a file of the state folder
//   3. wait for the lock and the lease for a while, and do the work
//   4. where the bytes were not taken after all, keep the file and name the command that takes it

/// The pipe that a run reads, if it reads one.
final class PipedInput {
    /// How long a run with the bytes of a pipe waits for another run.
    private static let patience = Duration.seconds(30)

    private let path: String?
    private var spool: SpoolFile?
    /// Whether the bytes are in a list or the database, or need not be.
    private var isTaken = false
    /// Whether the bytes were refused, and the layout by which they can be read, where one is known.
    private var (isRefused, layout): (Bool, ReportLayout?) = (false, nil)
    /// Why the database would not let the run take the bytes; nothing was read then.
    private(set) var refusal: RunFailure?

    /// Takes the path of the file or pipe.
    init(_ path: String?) { self.path = path }

    /// Until when the run waits for others; not at all without the bytes of a pipe.
    var deadline: Deadline { spool == nil ? .now : .in(Self.patience) }

    /// Reads a pipe to its end; nil where the run would be refused, for which `refusal` has the reason. A
    /// file is passed on as it is.
    ///
    /// - Throws: failures of reading and of the state folder.
    func settle(
        _ source: GivenSource, in state: String, unless refusal: () throws -> RunFailure?
    ) throws -> GivenSource? {
        guard source.length == nil else { return source }
        self.refusal = try refusal()
        guard self.refusal == nil else { return nil }
        let spool = try SpoolFile(in: state)
        self.spool = spool
        return try source.spooled(to: spool)
    }

    /// Notes that the bytes are in a list or the database, and removes a file that an earlier run had kept.
    func noteTaken(in folder: StateFolder) {
        isTaken = true
        if let path { folder.removeSpool(path) }
    }

    /// Notes that the bytes do not fit the options, and the layout by which they do, where one is known.
    func noteRefused(_ layout: ReportLayout?) { (isRefused, self.layout) = (true, layout) }

    /// Keeps bytes that were not taken, and returns what to tell; nil where there are none. A content for
    /// which the disk has no room is left to the program that wrote it; a feedback list is always kept,
    /// for its gateway has forgotten it.
    func kept(_ exit: ExitStatus, isList: Bool) -> String? {
        guard let spool, spool.count > 0, !isTaken, let path,
            isList || isRefused || ![.usage, .quarantined, .cannotCreate].contains(exit)
        else { return nil }
        let name = path == "-" ? "standard input" : path
        do {
            try spool.keep()
        } catch {
            return "\(error)"
        }
        let cure =
            isRefused && layout == nil ? "correct the options or the file, then " : ""
        return "what was read of \(name) is kept (\(spool.count.counting("byte"))); " + cure
            + "take it with: " + Self.command(path, spool.path, layout)
    }

    /// The command line of this process with another path, and with the options of a layout.
    private static func command(
        _ path: String, _ other: String, _ layout: ReportLayout?
    ) -> String {
        var words = Array(CommandLine.arguments.dropFirst())
        if let place = words.firstIndex(of: path) { words[place] = other }
        if let layout {
            for option in ["--map", "--time-unit", "--from"] {
                let given = words.firstIndex { $0.hasPrefix(option) }
                guard let place = given else { continue }
                let end = min(words[place] == option ? place + 2 : place + 1, words.count)
                words.replaceSubrange(
                    place..<end, with: option == "--from" ? layout.options : [])
            }
        }
        return (["pushsweep"] + words).map(\.shellWord).joined(separator: " ")
    }
}

extension Interrupt {
    /// Tries a body again while another run holds what it needs, until a deadline or a stop signal.
    ///
    /// - Throws: the errors of the body.
    func whileLocked<Value>(until deadline: Deadline, _ body: () throws -> Value) throws -> Value {
        while true {
            do {
                return try body()
            } catch {
                let pause = Deadline.earlier(of: deadline, .in(.milliseconds(200)))
                guard RunFailure.wrapping(error, at: .state).exit == .locked,
                    !deadline.hasPassed, !wait(until: pause)
                else { throw error }
            }
        }
    }
}
