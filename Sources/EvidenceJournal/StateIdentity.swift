// A run that was killed leaves its lease behind, and the next run on the same folder takes it over at once:
// it holds the folder's lock, so the other cannot be alive. That is true of this very folder only. A disk
// image, a volume or a backup copies all that is in the folder, a name in a file too, and two copies under
// one name would take each other's lease while both are alive.
//
// So the name that others see is made of what the file says and of what no copy has: the file's number on
// its file system (a copy is another file), and the number that the kernel drew when this machine was
// started (a cloned disk runs on another). After a restart of the machine the name is therefore new as well,
// and the next run waits for the end of the lease, a minute at most. Two machines that were woken from one
// image of a running one, its memory included, cannot be told apart.

import Encodings
import Foundation
import Glibc

extension StateFolder {
    static let identityName = "identity"

    /// A name for this folder on this machine since its start, which no other folder has and no copy of
    /// this one: a UUID. By it a run on the folder tells what another run on it has left elsewhere.
    ///
    /// What it is made of is durable before anything is left elsewhere under it. A file that cannot be
    /// read as a name is made anew: all that is lost is that the next run waits for the end of a lease.
    ///
    /// - Throws: `cannotCreate` where the file cannot be made; `permission` where it is somebody else's.
    package func identity() throws(JournalFailure) -> String {
        let name = try nameInFile()
        var facts = stat()
        // What cannot be told from a copy takes over from nobody.
        guard fstatat(folder.descriptor, Self.identityName, &facts, AT_SYMLINK_NOFOLLOW) == 0,
            let start = Self.startOfMachine
        else { return UUID().uuidString.lowercased() }
        return Self.mixed("\(name) \(facts.st_dev) \(facts.st_ino) \(start)")
    }

    private func nameInFile() throws(JournalFailure) -> String {
        let known = try makePrivate(Self.identityName)
        let text = String(decoding: known, as: UTF8.self).prefix { $0 != "\n" }
        if UUID(uuidString: String(text)) != nil { return String(text) }
        let name = UUID().uuidString.lowercased()
        try write(name + "\n", into: Self.identityName)
        try syncNames()
        return name
    }

    private func write(_ text: String, into name: String) throws(JournalFailure) {
        let descriptor = try folder.open(name, O_WRONLY)
        defer { close(descriptor) }
        let bytes = Array(text.utf8)
        // So few bytes are written at once or not at all.
        guard ftruncate(descriptor, 0) == 0,
            Glibc.write(descriptor, bytes, bytes.count) == bytes.count, fsync(descriptor) == 0
        else {
            throw JournalFailure(
                .cannotCreate,
                "writing \(file(name)): \(String(cString: strerror(errno))); check the disk")
        }
    }

    /// The number that the kernel drew at its start (random(4)); nil without /proc.
    private static var startOfMachine: String? {
        let descriptor = Glibc.open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(descriptor, &bytes, bytes.count)
        return count > 0 ? String(decoding: bytes[..<count], as: UTF8.self) : nil
    }

    /// A text as a UUID: FNV-1a with 128 bits. Nobody has a reason to forge it, since who can write into
    /// the lease can write any name.
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
