// A sender may run for weeks, and several may run on one host, while the sweep comes every hour. So
// senders do not share the sweep's folder and its lock: each takes the first free one of the folders
// send/1, send/2 and so on below it. A sender that was killed leaves a folder with a free lock behind;
// whoever comes by, sender or sweep, applies what is in it.

import Foundation

/// The state folders of senders.
package enum SenderFolders {
    /// Senders that one host may run at once.
    package static let most = 16

    /// Takes the first folder that no other sender holds.
    ///
    /// - Throws: `locked` when all are taken, or what stands in the way of making one.
    package static func takeFree(in state: String) throws(JournalFailure) -> StateFolder {
        try makeParent(of: state)
        for number in 1...most {
            do throws(JournalFailure) {
                return try StateFolder(path(number, in: state))
            } catch {
                guard error.code == .locked else { throw error }
            }
        }
        throw JournalFailure(
            .locked,
            "looking for a folder for this sender: \(most) senders hold those in \(state)/send; "
                + "end some, or give this one a state folder of its own")
    }

    /// Folders with a journal that no living sender holds; they stay locked while held here. With
    /// them what stands in the way of looking into others.
    package static func abandoned(
        in state: String
    ) -> (folders: [StateFolder], problems: [JournalFailure]) {
        var found: [StateFolder] = []
        var problems: [JournalFailure] = []
        for number in 1...most {
            let path = path(number, in: state)
            guard access(path + "/" + StateFolder.journalName, F_OK) == 0 else { continue }
            do throws(JournalFailure) {
                found.append(try StateFolder(path))
            } catch {
                if error.code != .locked { problems.append(error) }
            }
        }
        return (found, problems)
    }

    /// All folders with a journal, whether or not a sender holds them, for what is held in them.
    ///
    /// - Throws: what stands in the way of looking into one.
    package static func visited(in state: String) throws(JournalFailure) -> [StateFolder] {
        var folders: [StateFolder] = []
        for number in 1...most {
            let path = path(number, in: state)
            guard access(path + "/" + StateFolder.journalName, F_OK) == 0 else { continue }
            folders.append(try StateFolder(visiting: path))
        }
        return folders
    }

    /// The folders that a run with one of them may look into beside it: the state folder and those of
    /// its senders. Nothing in them may be changed.
    ///
    /// - Returns: the folders with the senders' numbers, and how many cannot be looked into.
    package static func neighbours(
        of own: StateFolder, in state: String
    ) -> (folders: [(folder: StateFolder, sender: Int?)], unreadable: Int) {
        var folders: [(StateFolder, Int?)] = []
        var unreadable = 0
        for number in 0...most {
            let path = number == 0 ? state : path(number, in: state)
            guard path != own.path, access(path, F_OK) == 0 else { continue }
            do throws(JournalFailure) {
                folders.append((try StateFolder(visiting: path), number == 0 ? nil : number))
            } catch {
                unreadable += 1
            }
        }
        return (folders, unreadable)
    }

    /// The number of a sender's folder; nil for a state folder.
    package static func number(of folder: StateFolder, in state: String) -> Int? {
        (1...most).first { path($0, in: state) == folder.path }
    }

    private static func path(_ number: Int, in state: String) -> String {
        "\(state)/send/\(number)"
    }

    /// The folder above is made with the mode that its own run would give it.
    private static func makeParent(of state: String) throws(JournalFailure) {
        for folder in [state, state + "/send"] { try StateFolder.create(folder) }
    }
}
