extension String {
    /// The path of the folder that holds what this path names: `/a` of `/a/b/`, `/` of `/a`, `.` of `a`
    /// (dirname(3)).
    package var parentPath: String {
        guard let slash = withoutSlashesAtEnd.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        let parent = String(Substring(utf8[..<slash])).withoutSlashesAtEnd
        return parent.isEmpty ? "/" : String(Substring(parent))
    }

    /// The last name of a path: `b` of `/a/b/`, nothing of `/`.
    package var lastName: String {
        let path = withoutSlashesAtEnd
        let start = path.lastIndex(of: UInt8(ascii: "/")).map(path.index(after:))
        return String(Substring(path[(start ?? path.startIndex)...]))
    }

    private var withoutSlashesAtEnd: Substring.UTF8View {
        var path = utf8[...]
        while path.last == UInt8(ascii: "/") { path.removeLast() }
        return path
    }
}
