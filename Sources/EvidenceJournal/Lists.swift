import APNsProtocol
import FoundationEssentials
import Glibc
import TokenHygiene

// The lists of a state folder. Who has no lock on the folder reads them and changes nothing; a list that its owner removes
// meanwhile is none.

extension StateFolder {
    /// Days for which the bytes of an applied list are kept. The change ledger is kept as long.
    package static let retentionDays: Int64 = 30
    static let (listPrefix, appliedPrefix) = ("list-", "applied-")

    /// The list of a file's name.
    static func list(in name: String) -> String {
        name.split(separator: "-", maxSplits: 1).last.map(String.init) ?? ""
    }

    /// The files of lists with a prefix, sorted.
    private func names(_ prefixes: [String]) throws(JournalFailure) -> [String] {
        try folder.entries.filter { name in
            prefixes.contains(where: name.hasPrefix)
                && UUID(uuidString: Self.list(in: name)) != nil
        }
    }

    /// The files of lists, for checks of who owns them.
    var listNames: [String] {
        get throws(JournalFailure) { try names([Self.listPrefix, Self.appliedPrefix]) }
    }

    /// Whether it has lists that were not applied.
    package var hasLists: Bool {
        get throws(JournalFailure) { try !names([Self.listPrefix]).isEmpty }
    }

    /// Opens a capture, before the first byte of a list is read.
    ///
    /// - Throws: `cannotCreate`, `permission`, `inputOutput`.
    package func beginList(
        run: String, partition: Partition, source: String, at now: EpochMilliseconds
    ) throws(JournalFailure) -> ListCapture {
        try ListCapture(
            ListHead(
                run: run, app: partition.app, environment: partition.environment, source: source,
                opened: now.rawValue), in: folder)
    }

    /// The lists in the given states, oldest first.
    ///
    /// - Throws: `undecodable` for a list whose head is damaged; `inputOutput`, `permission`, `otherBuild`.
    package func lists(_ states: ListState...) throws(JournalFailure) -> [CapturedList] {
        let prefixes = [Self.listPrefix] + (states.contains(.applied) ? [Self.appliedPrefix] : [])
        var lists: [CapturedList] = []
        for name in try names(prefixes) {
            guard let list = try open(name).flatMap(captured), states.contains(list.state)
            else { continue }
            lists.append(list)
        }
        return lists.sorted { ($0.opened, $0.id) < ($1.opened, $1.id) }
    }

    /// The list with a name.
    ///
    /// - Throws: `unknownList` when the folder has no list of this name; as `lists`.
    package func list(_ id: String) throws(JournalFailure) -> CapturedList {
        let file = try file(of: id)
        guard let list = try captured(file) else { throw Self.unknown(id) }
        return list
    }

    private static func unknown(_ id: String) -> JournalFailure {
        JournalFailure(
            .unknownList,
            "looking for list \(id.isEmpty ? "''" : id): neither the database nor the state folder of this "
                + "host has one of this name; give the whole name, as holds list --format json, quarantine list "
                + "and the reports of runs print it; bytes of a list go \(retentionDays) days after it was applied"
        )
    }

    /// The names of lists that were applied since a time, oldest first.
    ///
    /// - Throws: `inputOutput`.
    package func appliedLists(
        since oldest: EpochMilliseconds
    ) throws(JournalFailure) -> [String] {
        try names([Self.appliedPrefix]).filter { appliedAt($0).map { $0 > oldest } ?? false }
            .map(Self.list)
    }

    /// When the list of a file was applied.
    private func appliedAt(_ name: String) -> EpochMilliseconds? {
        folder.modified(name).map { EpochMilliseconds($0) }
    }

    /// The open file of a list.
    private func file(
        of id: String, _ flags: Int32 = O_RDONLY
    ) throws(JournalFailure) -> ListFile {
        for prefix in [Self.listPrefix, Self.appliedPrefix] where UUID(uuidString: id) != nil {
            if let file = try open(prefix + id, flags) { return file }
        }
        throw Self.unknown(id)
    }

    /// An open file; nil where there is none, or none any more.
    private func open(
        _ name: String, _ flags: Int32 = O_RDONLY
    ) throws(JournalFailure) -> ListFile? {
        do {
            return try ListFile(name, in: folder, flags)
        } catch {
            guard folder.has(name) else { return nil }
            throw error
        }
    }

    /// The list of a file; nil for a file that was made and has no list yet.
    private func captured(_ file: ListFile) throws(JournalFailure) -> CapturedList? {
        if let list = try file.captured() { return list }
        guard file.hasBlocks else { return nil }
        throw failure(ofDamage: "its head cannot be read", in: file.name)
    }

    /// Passes the bytes of a list on in their order.
    ///
    /// - Throws: `undecodable` for a list that is damaged, which is set aside then; `unknownList` where it is gone;
    ///   `inputOutput`; the errors of the body.
    package func readBytes(
        of list: CapturedList, from offset: Int = 0,
        _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        let file = try file(of: list.id)
        var count = 0
        let place = try file.blocks { bytes in
            let wanted = bytes.prefix(list.bytes - count).dropFirst(max(0, offset - count))
            count += bytes.count
            if !wanted.isEmpty { try body(.init(rebasing: wanted)) }
            return count < list.bytes
        }
        guard count < list.bytes else { return }
        throw failure(
            ofDamage: "of \(list.bytes) bytes it has \(count), up to place \(place)", in: file.name)
    }

    /// Notes that the database has all of a list, also what it has in quarantine. Its bytes are kept for the retention
    /// period from `now` on.
    ///
    /// - Throws: `inputOutput`, `unknownList`.
    package func noteApplied(_ id: String, at now: EpochMilliseconds) throws(JournalFailure) {
        let file = try file(of: id, O_RDWR)
        try file.setModified(now.rawValue)
        let (place, applied) = (folder.descriptor, Self.appliedPrefix + id)
        guard renameat(place, file.name, place, applied) == 0 else {
            throw file.failure("noting as applied")
        }
        try folder.sync()
    }

    /// Closes the lists whose run ended without doing so, and removes what a run left that was killed before it read.
    /// Call it under the lock, before reading.
    ///
    /// - Returns: the failures of damaged lists, which are set aside.
    /// - Throws: `inputOutput`, `permission`, `otherBuild`.
    package func recoverLists() throws(JournalFailure) -> [JournalFailure] {
        var damaged: [JournalFailure] = []
        for name in try names([Self.listPrefix]) {
            do throws(JournalFailure) {
                try recover(name)
            } catch {
                guard error.code == .undecodable else { throw error }
                damaged.append(error)
            }
        }
        return damaged
    }

    private func recover(_ name: String) throws(JournalFailure) {
        guard let file = try open(name, O_RDWR) else { return }
        guard let list = try captured(file) else {
            unlinkat(folder.descriptor, name, 0)
            return
        }
        guard list.state == .reading else { return }
        let (bytes, place) = try file.extent()
        guard try !file.wasDurable(at: place) else {
            throw failure(ofDamage: "behind \(bytes) bytes, at place \(place)", in: name)
        }
        try file.end(.crashed, at: nil, bytes: bytes, behind: place)
    }

    /// Removes the lists that were applied longer ago than the retention period.
    ///
    /// - Throws: `inputOutput`.
    package func purgeLists(at now: EpochMilliseconds) throws(JournalFailure) {
        let oldest = now.advanced(by: -Self.retentionDays * 86_400_000)
        for name in try names([Self.appliedPrefix]) {
            guard let applied = appliedAt(name), applied < oldest else { continue }
            unlinkat(folder.descriptor, name, 0)
        }
    }

    /// Renames the file of a damaged list, so that the others go on. In a visited folder it stays, because its owner may
    /// be alive.
    private func failure(ofDamage cause: String, in name: String) -> JournalFailure {
        let words = "the list \(file(name)) is damaged (\(cause))"
        guard !isVisited else {
            return JournalFailure(
                .inputOutput, words + "; the next run that takes its folder sets it aside")
        }
        guard let kept = setAside(name) else {
            return JournalFailure(
                .inputOutput,
                words
                    + " and could not be set aside (\(String(cString: strerror(errno)))): move it to a safe "
                    + "place, then run again")
        }
        return JournalFailure(
            .undecodable,
            words
                + "; it was set aside as \(file(kept)) and has bytes that its gateway has forgotten: keep it, and "
                + "check the disk")
    }
}
