// A killed run leaves its lease behind. The next run on the same folder takes the lease over at once:
// it holds the folder's lock, so the other run cannot be alive. That is true for this very folder
// only. A disk image, a volume or a backup copies all content of the folder, a name in a file too.
// Two copies under one name would take each other's lease while both are alive.
//
// So the identity is computed from the content of a file and from two facts that no copy shares: the
// file's number on its file system (a copy is another file), and the boot number of the kernel (a
// cloned disk runs on another machine). After a restart of the machine the identity is therefore new
// as well, and the next run waits for the end of the lease, a minute at most. Two machines that were
// resumed from one image of a running machine, its memory included, cannot be told apart.

import Encodings
import FoundationEssentials
import Glibc

extension StateFolder {
    static let identityName = "identity"

    /// The identity of this folder on this machine since its boot, as a UUID. No other folder has it,
    /// and no copy of this one. A run recognizes by it the leases that an earlier run on this folder
    /// left.
    ///
    /// The file behind it is durable before any lease is written with it. A file without a valid name
    /// is written again; the only loss is that the next run waits for the end of a lease.
    ///
    /// - Throws: `cannotCreate` when the file cannot be made; `permission` when it belongs to another
    ///   user.
    package func identity() throws(JournalFailure) -> String {
        let name = try nameInFile()
        var facts = stat()
        // Without these facts a folder and its copy look the same, so the identity must be a new one.
        guard fstatat(folder.descriptor, Self.identityName, &facts, AT_SYMLINK_NOFOLLOW) == 0,
            let start = Self.startOfMachine
        else { return UUID().uuidString.lowercased() }
        return Self.mixed("\(name) \(facts.st_dev) \(facts.st_ino) \(start)")
    }

    private func nameInFile() throws(JournalFailure) -> String {
        if let known = Self.name(in: try makePrivate(Self.identityName)) { return known }
        let name = UUID().uuidString.lowercased()
        try write(name + "\n", into: Self.identityName)
        try folder.sync()
        return name
    }

    /// The UUID that a file begins with, in lower case; nil for any other content.
    private static func name(in content: some Collection<UInt8>) -> String? {
        let text = String(decoding: content.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        return UUID(uuidString: text) == nil ? nil : text.lowercased()
    }

    static let databaseName = "database"

    /// The identity of the database to which the folder belongs; nil before its first run with one. A file that has
    /// none, as after a power cut, says that it belongs to one that nobody can name: no database has an empty name.
    ///
    /// - Throws: `permission` when the file belongs to another user; `inputOutput`.
    package var database: String? {
        get throws(JournalFailure) {
            guard folder.has(Self.databaseName) else { return nil }
            let descriptor = try folder.open(Self.databaseName, O_RDONLY)
            defer { close(descriptor) }
            var bytes = [UInt8](repeating: 0, count: 64)
            let count = read(descriptor, &bytes, bytes.count)
            guard count >= 0 else {
                throw JournalFailure(.inputOutput, "reading \(file(Self.databaseName))", errno)
            }
            return Self.name(in: bytes[..<count]) ?? ""
        }
    }

    /// Lets the folder belong to a database. It is durable when this returns; a run that is killed meanwhile leaves the
    /// name that was there before, or none.
    ///
    /// - Throws: as `database`, and `cannotCreate`.
    package func belong(toDatabase identity: String) throws(JournalFailure) {
        let draft = Self.databaseName + ".new"
        _ = try makePrivate(draft)
        try write(identity + "\n", into: draft)
        let (place, name) = (folder.descriptor, Self.databaseName)
        guard renameat(place, draft, place, name) == 0 else {
            throw JournalFailure(.cannotCreate, "renaming \(file(draft)) to \(name)", errno)
        }
        try folder.sync()
    }

    private func write(_ text: String, into name: String) throws(JournalFailure) {
        let descriptor = try folder.open(name, O_WRONLY)
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        // So few bytes are written completely or not at all.
        guard ftruncate(descriptor, 0) == 0,
            Glibc.write(descriptor, bytes, bytes.count) == bytes.count, fsync(descriptor) == 0
        else {
            throw JournalFailure(.cannotCreate, "writing \(file(name))", errno)
        }
    }

    /// The random number of the kernel's boot (random(4)); nil without /proc.
    private static var startOfMachine: String? {
        let descriptor = Glibc.open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(descriptor, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    /// The UUID of a text: FNV-1a with 128 bits. Forging one gains nothing, since a user who can
    /// write the lease can write any name.
    private static func mixed(_ text: String) -> String {
        var hash: UInt128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d
        for byte in text.utf8 {
            hash ^= UInt128(byte)
            hash &*= 0x0000_0000_0100_0000_0000_0000_0000_013B
        }
        var name = withUnsafeBytes(of: hash.bigEndian) { Hex.text($0) }
        for place in [20, 16, 12, 8] {
            name.insert("-", at: name.index(name.startIndex, offsetBy: place))
        }
        return name
    }
}
