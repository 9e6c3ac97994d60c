// A state folder belongs to one database: that of its first run with a lease. Its lists are about the rows there, and a
// gateway has forgotten them. So in front of another database, such as one of tests, nothing of the folder is poured and
// no gateway is read:
//
//   folder      database    a run under the lease
//   none        none        gives the database an identity, and the folder belongs to it
//   none        A           the folder belongs to A
//   A           A           goes on
//   A           B, none     78: its lists stay and are named; `sweep --adopt` hands the folder over
//
// One that was restored from a backup has the identity and lacks lists that were handed over after the backup. The folder
// has their bytes for 30 days, so they are named with the command that hands each over again.

import APNsProtocol
import Database
import Encodings
import EvidenceJournal
import Findings
import TokenHygiene
import TokenTable

/// Binds the state folder of a run to its database.
package struct FolderBinding {
    let folder: StateFolder
    /// The folder of its lists, which is that of a trial where it is one.
    let lists: StateFolder
    let store: TokenTable
    let context: RunContext

    /// The most lists that are named at once.
    private static let mostNamed = 10
    /// Days for which a missing list is told; a day less than its bytes are kept.
    private static let days = StateFolder.retentionDays - 1

    init(_ opened: OpenedJournal, _ store: TokenTable, _ context: RunContext) {
        (folder, lists) = (opened.folder, opened.journal.folder)
        (self.store, self.context) = (store, context)
    }

    /// Makes sure that the folder belongs to this database, under the lease. One that belongs to another is handed over
    /// where a person `adopts` it.
    ///
    /// - Throws: `configuration` for the folder of another database; failures of both.
    func bind(adopting adopts: Bool) throws {
        let owner = try folder.database
        let known = try RunFailure.at(.store) { try store.identity() }
        if let owner, owner == known { return }
        guard owner == nil || adopts else { throw try refusal(owner, known) }
        let identity = try RunFailure.at(.store) {
            try store.identity(orElse: UUIDText.random())
        }
        try folder.belong(toDatabase: identity)
        guard let owner else { return }
        let lists = try lists.lists(.pending, .held).count
        context.log.warning(
            """
            the state folder \(folder.path) belonged to database \(owner) and belongs to \(identity) now\
            \(lists == 0 ? "" : "; \(lists.counting("list")) that waited in it \(lists == 1 ? "goes" : "go") there")
            """)
    }

    /// Makes sure that a run which changes nothing does not judge the lists of another database. An account that may not
    /// read the identity goes on.
    ///
    /// - Throws: as `bind`.
    func examine() throws {
        guard let owner = try folder.database else { return }
        let (isSeen, known) = try RunFailure.at(.store) {
            (
                try store.seesIdentity(),
                try store.identity()
            )
        }
        if isSeen, owner != known { throw try refusal(owner, known) }
    }

    private func refusal(_ owner: String?, _ known: String?) throws -> RunFailure {
        let lists = try lists.lists(.pending, .held)
        let waiting =
            lists.isEmpty ? "" : ", and \(lists.count.counting("list")) in it wait for that"
        return RunFailure(
            .configuration, .state,
            "using the state folder: "
                + Self.difference(folder.path, owner: owner ?? "none", known: known)
                + "; nothing was read or stored" + waiting + "; " + Self.cure,
            listing: lists.prefix(Self.mostNamed).map(Self.name))
    }

    /// That the state folder of this host belongs to another database; nil where it does not, or nobody can see it.
    ///
    /// - Throws: any failure of a query.
    package static func difference(
        _ host: HostFacts, _ store: TokenTable
    ) throws(StoreFailure) -> String? {
        let journal = host.journals.first { $0.sender == nil }?.journal
        // What keeps the folder from being read is told by others.
        guard let folder = journal?.folder, let owner = try? folder.database,
            try store.seesIdentity()
        else { return nil }
        let known = try store.identity()
        return owner == known
            ? nil : difference(folder.path, owner: owner, known: known) + "; " + cure
    }

    /// That a folder belongs to another database than this one, with both names.
    package static func difference(_ path: String, owner: String, known: String?) -> String {
        "\(path) belongs to database \(owner.isEmpty ? "?, whose name in its file is damaged" : owner), and this one "
            + (known.map { "is \($0)" } ?? "has no name yet, as one that was never swept")
    }

    /// What a person does then.
    package static let cure =
        "correct store.url or state; where this database takes the place of the other one, run pushsweep sweep "
        + "--adopt"

    private static func name(of list: CapturedList) -> String {
        "list \(list.id) of \(list.partition) from \(list.source), \(list.opened.rfc3339)"
    }

    /// Names the lists that were handed over to the database and that it lacks.
    ///
    /// - Throws: failures of the state folder and of the database.
    func tellMissing() throws {
        let oldest = context.now().advanced(by: -Self.days * 86_400_000)
        let handed = try lists.appliedLists(since: oldest)
        let known = try RunFailure.at(.store) {
            try Batches(store).known(among: handed)
        }
        let missing = try handed.filter { !known.contains($0) }.map(lists.list)
            .filter { $0.bytes > 0 }.sorted { $0.opened < $1.opened }
        guard !missing.isEmpty else { return }
        context.log.warning(
            """
            the database lacks \(missing.count.counting("list")) that this host had stored there, as one that was \
            restored from a backup; hand each over again:
            """)
        for list in missing.prefix(Self.mostNamed) {
            context.log.warning("pushsweep replay --batch \(list.id)  # \(Self.name(of: list))")
        }
    }
}
