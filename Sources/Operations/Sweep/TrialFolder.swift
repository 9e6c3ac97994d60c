import EvidenceJournal
import Foundation

/// A journal of its own for the dry run of a file. The real journal never hears of the feed, so a
/// trial that is killed leaves nothing that a later run would apply.
final class TrialFolder {
    private static let name = "trial"

    /// The folder, inside the state folder, since the file holds tokens.
    let folder: StateFolder

    /// Makes the folder of a trial, in place of one that was left; nil where the plan is no trial.
    /// The lock of the state folder keeps two trials apart.
    init?(for plan: SweepPlan, in state: StateFolder) throws {
        let path = state.file(Self.name)
        if access(path, F_OK) == 0 { try? FileManager.default.removeItem(atPath: path) }
        guard plan.isTrial else { return nil }
        folder = try StateFolder(Self.name, in: state)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder.path) }
}
