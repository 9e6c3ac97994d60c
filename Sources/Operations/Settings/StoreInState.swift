import EvidenceJournal

extension Settings {
    /// Looks at the state folder where the token database is a file in it, as it is by default: for commands
    /// that have to do with the database alone. SQLite would follow any link that stands there.
    ///
    /// - Throws: exit 77 where somebody else can change what is in the folder.
    func ensureOwnStore() throws(RunFailure) {
        guard case .sqlite(let path) = store.location, path.hasPrefix(state + "/") else { return }
        do {
            try StateFolder.examine(state)
        } catch {
            throw .wrapping(error, at: .state)
        }
    }
}
