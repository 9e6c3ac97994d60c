import Foundation
import Glibc

extension StateFolder {
    private static let identityName = "identity"

    /// A name for this folder that no other has, a UUID made with its first use. By it a run on the
    /// folder tells what another run on it has left elsewhere.
    ///
    /// A file that cannot be read as a name is made anew: all that is lost is that the next run waits
    /// for the end of a lease.
    ///
    /// - Throws: `cannotCreate` where the file cannot be made.
    package func identity() throws(JournalFailure) -> String {
        let known = try makePrivate(Self.identityName)
        let text = String(decoding: known, as: UTF8.self).prefix { $0 != "\n" }
        if UUID(uuidString: String(text)) != nil { return String(text) }
        let name = UUID().uuidString.lowercased()
        do {
            try Data((name + "\n").utf8).write(to: URL(fileURLWithPath: file(Self.identityName)))
        } catch {
            throw JournalFailure(
                .cannotCreate,
                "writing \(file(Self.identityName)): \(error.localizedDescription); check the disk")
        }
        return name
    }
}
