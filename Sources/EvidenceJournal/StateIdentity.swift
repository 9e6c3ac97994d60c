import Foundation
import Glibc

extension StateFolder {
    static let identityName = "identity"

    /// A name for this folder that no other has, a UUID made with its first use. By it a run on the
    /// folder tells what another run on it has left elsewhere.
    ///
    /// The name is durable before anything is left elsewhere under it. A file that cannot be read as a
    /// name is made anew: all that is lost is that the next run waits for the end of a lease.
    ///
    /// - Throws: `cannotCreate` where the file cannot be made.
    package func identity() throws(JournalFailure) -> String {
        let known = try makePrivate(Self.identityName)
        let text = String(decoding: known, as: UTF8.self).prefix { $0 != "\n" }
        if UUID(uuidString: String(text)) != nil { return String(text) }
        let name = UUID().uuidString.lowercased()
        try write(name + "\n", into: file(Self.identityName))
        try Self.syncNames(in: path)
        return name
    }

    private func write(_ text: String, into path: String) throws(JournalFailure) {
        let descriptor = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        let bytes = Array(text.utf8)
        // So few bytes are written at once or not at all.
        guard descriptor >= 0, Glibc.write(descriptor, bytes, bytes.count) == bytes.count,
            fsync(descriptor) == 0
        else {
            throw JournalFailure(
                .cannotCreate,
                "writing \(path): \(String(cString: strerror(errno))); check the disk")
        }
    }
}
