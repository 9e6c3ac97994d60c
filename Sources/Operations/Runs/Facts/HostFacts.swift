import APNsProtocol
import EvidenceJournal
import FoundationEssentials
import SecureTransport
import Settings
import TokenHygiene

/// What the journals of this host have: those of sweeps and of senders. They are read without their lock,
/// because another run may be at work.
package struct HostFacts {
    /// What one of them has that no batch has yet, and whose it is.
    package struct Journal {
        /// Read without its lock.
        package let journal: EvidenceJournal
        /// The number of the sender's folder; nil for the state folder itself.
        package let sender: Int?
        /// The lists that are not poured into the database.
        package let lists: [CapturedList]

        /// Reads which lists it has.
        ///
        /// - Throws: where its file cannot be read.
        package init(_ journal: EvidenceJournal, sender: Int? = nil) throws(JournalFailure) {
            (self.journal, self.sender) = (journal, sender)
            lists = try journal.folder.lists(.reading, .pending, .held)
        }

        /// Those of its lists that are in one of some states.
        package func lists(in states: ListState...) -> [CapturedList] {
            lists.filter { states.contains($0.state) }
        }
    }

    /// Those that could be read.
    package private(set) var journals: [Journal] = []
    /// The warnings about journals that were set aside as damaged.
    package private(set) var damage: [String] = []
    /// What could not be read, and why.
    package private(set) var unreadable: [(place: String, failure: JournalFailure)] = []
    /// How many reports against tokens senders that are gone have left, by the names in the settings.
    package private(set) var leftReports: [Partition: Int] = [:]
    /// Whether there is a state folder. A container without a volume has none yet.
    package private(set) var hasState = false

    init() {}

    /// Reads the state folder and those of its senders, besides a folder of this run.
    package init(in state: String, besides own: StateFolder? = nil) {
        let (folders, failures) = SenderFolders.neighbours(of: own, in: state)
        hasState = own != nil || !folders.isEmpty || !failures.isEmpty
        unreadable = failures.map { ("state folder", $0) }
        for (folder, sender) in folders {
            do throws(JournalFailure) {
                damage += try folder.damagedFiles.map(folder.damage)
                // A sender that lives is about to store what its log has.
                if sender != nil, !folder.isHeld {
                    leftReports.merge(
                        try AnswerLog.leftReports(in: folder), uniquingKeysWith: +)
                }
                // A folder whose journal was set aside has no journal until its next run.
                let hasLists = try folder.hasLists
                guard folder.hasJournal || hasLists else { continue }
                journals.append(try Journal(EvidenceJournal(reading: folder), sender: sender))
            } catch {
                unreadable.append(("journal in \(folder.path)", error))
            }
        }
    }

    /// Reads more of each journal. One that fails counts as unreadable, and the others are read.
    package mutating func readEach(_ body: (EvidenceJournal) throws(JournalFailure) -> Void) {
        for journal in journals.map(\.journal) {
            do throws(JournalFailure) {
                try body(journal)
            } catch {
                unreadable.append(("journal in \(journal.folder.path)", error))
            }
        }
    }
}

extension Decodable {
    /// The value of a line of JSON, such as the report of a run; nil for one of another kind or version.
    package init?(line: String?) {
        guard let line,
            let value = try? JSONDecoder().decode(Self.self, from: Data(line.utf8))
        else { return nil }
        self = value
    }
}

extension Settings.Certificate {
    /// The certificate with its key, whether or not it is valid now.
    package func identity() throws(IdentityFailure) -> TLSIdentity {
        try TLSIdentity.load(file: file, key: key, passphraseFile: passphraseFile)
    }
}

extension TLSIdentity {
    /// When its certificate ends to be valid (RFC 5280, 4.1.2.5).
    package var ends: EpochMilliseconds { EpochMilliseconds(facts.notAfter * 1_000) }
}

extension Settings.App {
    /// The group of settings of the gateway that takes its notifications.
    package var sendingSetting: GatewaySetting { provider == nil ? .binary : .provider }
}
