import APNsSimulator
import Foundation
import TestSupport

/// The library of power-cut.c, which gives a program a disk that forgets what was not synced.
enum PowerCut {
    /// How the disk fails.
    enum Disk: Equatable {
        /// Forgets all that was not synced.
        case forgetful
        /// Keeps some of the writes, chosen by the number, and of some a beginning.
        case torn(UInt64)
        /// Claims to have synced, but has not.
        case lying
    }

    /// Where the compiled library is; nil without a compiler.
    static let library = PreloadedLibrary.powerCut.path

    /// The message of skipped tests.
    static let absence = PreloadedLibrary.absence

    /// The result of a run with a failing disk.
    struct Notes {
        private let folder: TemporaryFolder

        init() throws { folder = try TemporaryFolder() }

        /// The variables of a run whose power fails in place of a call; 0 for one that does not
        /// fail.
        func environment(
            _ disk: Disk, at call: Int, of folder: TemporaryFolder
        ) -> [String: String] {
            var variables = [
                "LD_PRELOAD": PowerCut.library ?? "", "POWER_CUT_FOLDER": folder.path,
                "POWER_CUT_NOTES": self.folder.path, "POWER_CUT_AT": "\(call)",
            ]
            switch disk {
            case .forgetful: break
            case .torn(let seed): variables["POWER_CUT_SEED"] = "\(seed)"
            case .lying: variables["POWER_CUT_LIES"] = "1"
            }
            return variables
        }

        /// The calls that change or sync a file, each with the file.
        func calls() throws -> [String] {
            try String(contentsOfFile: folder.file("calls"), encoding: .utf8)
                .split(separator: "\n").map(String.init)
        }

        /// The state folder at the power cut, with the writes that were never synced.
        var stateBefore: String { folder.file("before/state") }
    }
}
