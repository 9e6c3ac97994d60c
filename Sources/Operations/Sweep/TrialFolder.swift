import EvidenceJournal
import Foundation

/// A separate journal for the dry run of a file. The feed never enters the real journal, so a killed
/// trial leaves nothing that a later run would apply.
final class TrialFolder {
    private static let name = "trial"

    /// The folder. It is inside the state folder, since the file holds tokens.
    let folder: StateFolder

    /// Makes the folder of a trial, and replaces one that was left; nil when the plan is not a trial.
    /// The lock of the state folder prevents two trials at once.
    init?(for plan: SweepPlan, in state: StateFolder) throws {
        let path = state.file(Self.name)
        if access(path, F_OK) == 0 { try? FileManager.default.removeItem(atPath: path) }
        guard plan.isTrial else { return nil }
        folder = try StateFolder(Self.name, in: state)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder.path) }
}
