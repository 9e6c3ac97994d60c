import Database
import Encodings
import TokenTable

// A column by which the rows of one device are known shows which of two tokens is the older one. Only its name
// speaks for it, and what it holds is up to the application: an identifier of the account or of a build
// would make tokens of several devices look like those of one. So it is only asked about.

extension MappingSearch {
    /// Asks about a column that may name the device.
    mutating func askDevice() {
        let asked = Set(
            proposal.questions.compactMap(\.column) + (proposal.mapping.ignoredColumns ?? []))
        let user = table.catalog.column("user_id") == nil ? "udid" : "user_id"
        let column = free.first { column in
            // With one row for each value no token is older than another one.
            ColumnWords(column.name).namesDevice && (column.isText || column.isBinary)
                && !table.catalog.isUnique([column.name])
                && !asked.contains(column.name) && !others.contains(column.name)
                && !(proposal.mapping.user == nil && column.name.lowercased() == user)
        }
        guard let column else { return }
        ask(
            .device, about: column.name,
            "column \(column.name) may name the device; where all rows of one device have the same value, and no "
                + "other device has it, `audit --deep` counts tokens that a later one of their device supersedes",
            setting: "{column: \(column.name.yamlScalar)}")
    }
}

extension ColumnWords {
    /// Whether the name is that of an identifier of a device or an installation.
    fileprivate var namesDevice: Bool {
        if words == ["idfv"] || words == ["udid"] { return true }
        guard let last = words.last, words.count > 1 else { return false }
        if words == ["identifier", "for", "vendor"] { return true }
        return ["device", "installation", "install", "vendor"].contains(words[words.count - 2])
            && ["id", "uuid", "uid", "guid", "udid", "identifier"].contains(last)
    }
}
