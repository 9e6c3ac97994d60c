import Encodings
import FoundationEssentials
import Glibc

/// A file that is replaced as a whole. A reader finds the old content or the new one, never a part.
package struct ReplacedFile {
    let path: String
    /// The permissions of the new file; they do not depend on the umask.
    private let mode: mode_t
    /// What is written, for messages.
    private let content: String

    package init(_ path: String, of content: String, mode: UInt32 = 0o644) {
        (self.path, self.content, self.mode) = (path, content, mode)
    }

    private var folder: String { path.parentPath }

    /// Writes the file with one text; see `replace(writing:)`.
    ///
    /// - Throws: exit 73; the old file is unchanged then.
    package func replace(with text: String) throws(RunFailure) {
        try RunFailure.at(.report) { try replace { try $0(text) } }
    }

    /// Writes a new file beside the old one, syncs it, and renames it over the old one, all through
    /// one open folder. When another user owns the folder and puts a link in its place meanwhile, the
    /// link has no effect. The rename replaces the name itself, so a link under that name is not
    /// followed either. The body gets a function that appends text.
    ///
    /// - Throws: exit 73, and the errors of the body; the old file is unchanged then.
    package func replace(writing body: ((String) throws -> Void) throws -> Void) throws {
        let place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard place >= 0 else { throw failure() }
        defer { close(place) }
        // No collector reads metrics from a file whose name begins with a dot and ends with `.tmp`.
        let name = path.lastName
        let beside = ".\(name).\(UUID().uuidString.prefix(8)).tmp"
        let descriptor = openat(
            place, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
        guard descriptor >= 0 else { throw failure() }
        do {
            defer { close(descriptor) }
            guard fchmod(descriptor, mode) == 0 else { throw failure() }
            try body { try append($0, to: descriptor) }
            guard fsync(descriptor) == 0 else { throw failure() }
        } catch {
            unlinkat(place, beside, 0)
            throw error
        }
        guard renameat(place, beside, place, name) == 0 else {
            let failure = failure()
            unlinkat(place, beside, 0)
            throw failure
        }
        // The sync makes the new name durable. Without it the file is replaced all the same.
        _ = fsync(place)
    }

    private func append(_ text: String, to descriptor: Int32) throws {
        guard writeWhole(Array(text.utf8), to: descriptor) else { throw failure() }
    }

    private func failure() -> RunFailure {
        RunFailure(
            .cannotCreate, .report,
            "writing \(content) to \(path): \(String(cString: strerror(errno)).lowercased()); an old file "
                + "is untouched; make the folder writable, or name another file")
    }
}
