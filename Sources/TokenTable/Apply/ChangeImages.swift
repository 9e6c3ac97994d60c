import APNsProtocol
import Database
import Encodings
import TokenHygiene

/// The content of one ledger entry: the row's state before the change and after it; nil stands for
/// no row.
struct ChangeImages {
    let before: RowContent?
    let after: RowContent?
    /// The token that the row had; nil where it had none.
    let token: DeviceToken?
    /// Where the ledger has the entry.
    let part: LedgerPart
    /// The time of the evidence.
    let time: EpochMilliseconds
    /// Whether the entry stays if the device registered after it. A row that an undo inserted is
    /// compared with all its values of that time, including the registration.
    let yieldsToRegistration: Bool
    /// Whether nothing shows a change since that left the same value. A column of two values is dead
    /// again after the application has set it living and dead, and then only a registration time is
    /// another one.
    let isUndated: Bool
    /// Whether the entry accompanies that of a row and does not count.
    let isCompanion: Bool

    /// Whether an entry that cannot be read here sets a column that the layout does not have as its mark.
    static func isForeign(_ entry: LedgerEntry, image: String?, _ layout: TableLayout) -> Bool {
        switch entry.action {
        case "mark", "advance":
            guard let image else { return layout.mark == nil }
            guard let content = RowImageReader.content(image) else { return false }
            if content.columns.map(ExactText.init) != layout.markColumns.map(ExactText.init) {
                return true
            }
            // No mark of ours was set on a dead row: other words were living and dead then.
            guard entry.action == "mark", let living = layout.living else { return false }
            return content[living.name].map(living.isDead) == true
        case "restore":
            guard let image, let change = RowImageReader.pair(image) else { return false }
            return change.after?.columns.map(ExactText.init)
                != layout.markColumns.map(ExactText.init)
        default: return false
        }
    }

    /// Reads an entry; nil where the layout has no such columns or the entry cannot be read.
    init?(_ entry: LedgerEntry, image: String?, _ layout: TableLayout) {
        if Self.isForeign(entry, image: image, layout) { return nil }
        time = entry.evidence
        (token, part) = (entry.token, entry.part)
        isCompanion = entry.isCompanion
        yieldsToRegistration = entry.action != "insert"
        isUndated =
            layout.living != nil && layout.registration == nil
            && !["insert", "delete"].contains(entry.action)
        switch entry.action {
        case "mark" where layout.living != nil:
            guard let living = layout.living, let image,
                let content = RowImageReader.content(image), content.columns == [living.name]
            else { return nil }
            after = RowContent([living.name], [living.dead])
            before = content
        case "mark", "advance":
            guard let mark = layout.mark else { return nil }
            let columns = [mark.name, layout.reason].compactMap { $0 }
            after = RowContent(columns, [mark.value(entry.evidence), .text(entry.source)])
            guard let image else {
                before = RowContent(columns, columns.map { _ in SQLValue.null })
                return
            }
            guard let content = RowImageReader.content(image) else { return nil }
            before = content
        case "delete":
            guard let image, let content = RowImageReader.content(image) else { return nil }
            before = content
            after = nil
        case "side-mark":
            after = RowContent(TokenMark(time: entry.evidence, reason: entry.source))
            guard let image else {
                before = nil
                return
            }
            let list = RowImageReader.list(image)
            before = list.map(\.mark) ?? RowImageReader.content(image)
            let isNone = list != nil && before == nil
            guard isNone || before?.tokenMark != nil else { return nil }
        case "insert", "restore", "side-restore":
            guard let image, let change = RowImageReader.pair(image) else { return nil }
            // Undoing content that is not a mark would have no effect.
            let isReadable = [change.before, change.after].allSatisfy {
                $0 == nil || $0?.tokenMark != nil
            }
            guard entry.action != "side-restore" || isReadable else { return nil }
            (before, after) = change
        default: return nil
        }
    }

    /// Whether a row is in a state of an entry; nil stands for no row.
    static func agree(_ state: RowContent?, _ side: RowContent?) -> Bool {
        switch (state, side) {
        case (nil, nil): true
        case (let state?, let side?): state.agrees(with: side)
        default: false
        }
    }
}
