import Foundation
import Glibc

/// A file that is replaced as a whole. A reader finds the old content or the new one, never a part.
struct MetricsFile {
    /// The path of the file.
    let path: String

    /// The program that collects metrics runs as another user.
    private static let mode: mode_t = 0o644

    private var folder: String {
        let folder = (path as NSString).deletingLastPathComponent
        return folder.isEmpty ? "." : folder
    }

    /// Writes a new file beside the old one, syncs it, and renames it over the old one, all through
    /// one open folder. When another user owns the folder and puts a link in its place meanwhile, the
    /// link has no effect. The rename replaces the name itself, so a link under that name is not
    /// followed either.
    ///
    /// - Throws: exit 73; the old file is unchanged then.
    func replace(with text: String) throws(RunFailure) {
        let place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard place >= 0 else { throw failure() }
        defer { close(place) }
        // No collector reads metrics from a file whose name begins with a dot and ends with `.tmp`.
        let name = (path as NSString).lastPathComponent
        let beside = ".\(name).\(UUID().uuidString.prefix(8)).tmp"
        let descriptor = openat(
            place, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, Self.mode)
        guard descriptor >= 0 else { throw failure() }
        // The mode does not depend on the umask.
        var isWritten = fchmod(descriptor, Self.mode) == 0
        var rest = Array(text.utf8)[...]
        while isWritten && !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            isWritten = count > 0
            rest = rest.dropFirst(max(0, count))
        }
        isWritten = isWritten && fsync(descriptor) == 0
        let failure = isWritten ? nil : failure()
        close(descriptor)
        guard isWritten, renameat(place, beside, place, name) == 0 else {
            let cause = failure ?? self.failure()
            unlinkat(place, beside, 0)
            throw cause
        }
        // The sync makes the new name durable. Without it the file is replaced all the same.
        _ = fsync(place)
    }

    private func failure() -> RunFailure {
        RunFailure(
            .cannotCreate, .report,
            "writing metrics to \(path): \(String(cString: strerror(errno)).lowercased()); the "
                + "run's changes stay and the old file is untouched; make the folder writable, or name "
                + "another file in report.metrics-file")
    }
}
