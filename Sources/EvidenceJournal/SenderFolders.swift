// A sender may run for weeks, and several may run on one host, while a sweep runs every hour. So
// senders do not share the sweep's folder and lock. Each sender takes the first free folder among
// send/1, send/2 and so on below the state folder. A killed sender leaves a folder with a free lock
// behind. The next sender or sweep writes the answers that it kept.

import APNsProtocol
import Glibc

/// Finds and takes the state folders of senders.
package enum SenderFolders {
    /// Maximum number of senders on one host at the same time.
    package static let most = 16

    /// Takes the first folder that no other sender holds.
    ///
    /// - Throws: `locked` when all are taken, or the failure to make one.
    package static func takeFree(in state: String) throws(JournalFailure) -> StateFolder {
        // The folders above get the mode that a sweep would give them.
        let above = try StateFolder.made(name, in: StateFolder.made(state))
        for number in 1...most {
            do throws(JournalFailure) {
                return try StateFolder(StateFolder.made("\(number)", in: above))
            } catch {
                guard error.code == .locked else { throw error }
            }
        }
        throw JournalFailure(
            .locked,
            "looking for a folder for this sender: \(most) senders hold those in \(state)/send; "
                + "end some, or give this one a state folder of its own")
    }

    /// The folders with a journal that no living sender holds. They stay locked as long as the caller
    /// keeps them. Also returns the failures to open other folders.
    package static func abandoned(
        in state: String
    ) -> (folders: [StateFolder], problems: [JournalFailure]) {
        var (found, problems): ([StateFolder], _) = ([], all(in: state).problems)
        for folder in senders(in: state) {
            do throws(JournalFailure) {
                found.append(try StateFolder(folder))
            } catch {
                if error.code != .locked { problems.append(error) }
            }
        }
        return (found, problems)
    }

    /// Opens the journals of senders that are gone, one after the other. `body` gets each journal under its
    /// lock, and returns whether to continue with the next.
    ///
    /// - Returns: the failures of journals; after a failure the next journal is opened.
    package static func visitAbandoned(
        in state: String, _ body: (EvidenceJournal) throws(JournalFailure) -> Bool
    ) -> [JournalFailure] {
        var (folders, problems) = abandoned(in: state)
        for folder in folders {
            do throws(JournalFailure) {
                guard try body(EvidenceJournal(in: folder)) else { return problems }
            } catch {
                problems.append(error)
            }
        }
        // The locks are held until here, so that no other process takes a folder meanwhile.
        withExtendedLifetime(folders) {}
        return problems
    }

    /// The folders that a run may read beside its own: the state folder and those of its senders.
    /// Nothing in them may be changed. A run that has no folder of its own gives nil.
    ///
    /// - Returns: the folders with the senders' numbers, and the failures to read others.
    package static func neighbours(
        of own: StateFolder? = nil, in state: String
    ) -> (folders: [(folder: StateFolder, sender: Int?)], unreadable: [JournalFailure]) {
        let (folders, unreadable) = all(in: state)
        return (
            folders.filter { $0.folder.path != own?.path }
                .map { (StateFolder(visiting: $0.folder), $0.sender) }, unreadable
        )
    }

    /// The number of a sender's folder; nil for the state folder itself.
    package static func number(of folder: StateFolder, in state: String) -> Int? {
        (1...most).first { path($0, in: state) == folder.path }
    }

    private static let name = "send"

    private static func path(_ number: Int, in state: String) -> String {
        "\(state)/\(name)/\(number)"
    }

    /// The open folders of senders that have a journal.
    private static func senders(in state: String) -> [PrivateFolder] {
        all(in: state).folders.filter { $0.sender != nil && $0.folder.has(StateFolder.journalName) }
            .map(\.folder)
    }

    /// The state folder, if there is one, then those of senders with their numbers; and the failures to
    /// open others.
    private static func all(
        in state: String
    ) -> (folders: [(folder: PrivateFolder, sender: Int?)], problems: [JournalFailure]) {
        var folders: [(PrivateFolder, Int?)] = []
        var problems: [JournalFailure] = []
        do throws(JournalFailure) {
            // What hides the state folder hides those in it.
            guard try StateFolder.exists(state) else { return ([], []) }
            let main = try PrivateFolder(state)
            folders.append((main, nil))
            guard main.has(name) else { return (folders, []) }
            let above = try PrivateFolder(name, in: main)
            for number in 1...most where above.has("\(number)") {
                do throws(JournalFailure) {
                    folders.append((try PrivateFolder("\(number)", in: above), number))
                } catch {
                    problems.append(error)
                }
            }
        } catch {
            problems.append(error)
        }
        return (folders, problems)
    }
}
