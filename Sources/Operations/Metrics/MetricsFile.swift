import Foundation
import Glibc

/// A file that is replaced whole: whoever reads it finds the old content or the new one, never a part.
struct MetricsFile {
    /// Where it is.
    let path: String

    /// Whoever collects metrics is another user.
    private static let mode: mode_t = 0o644

    private var folder: String {
        let folder = (path as NSString).deletingLastPathComponent
        return folder.isEmpty ? "." : folder
    }

    /// Writes beside the file, syncs, and renames over it, all in one folder that is held open: where
    /// the folder is another user's, a link put in its place meanwhile leads nowhere. What has the name
    /// is replaced, so a link under it is not followed either.
    ///
    /// - Throws: exit 73; the old file is as it was.
    func replace(with text: String) throws(RunFailure) {
        let place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard place >= 0 else { throw failure() }
        defer { close(place) }
        // No collector takes a name that begins with a dot and ends so for metrics.
        let name = (path as NSString).lastPathComponent
        let beside = ".\(name).\(UUID().uuidString.prefix(8)).tmp"
        let descriptor = openat(
            place, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, Self.mode)
        guard descriptor >= 0 else { throw failure() }
        // Whatever the umask says.
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
        // The name is for the next reader; a folder that cannot be synced has it all the same.
        _ = fsync(place)
    }

    private func failure() -> RunFailure {
        RunFailure(
            .cannotCreate, .report,
            "writing metrics to \(path): \(String(cString: strerror(errno)).lowercased()); what the "
                + "run did stands and the old file is untouched; make the folder writable, or name "
                + "another file in report.metrics-file")
    }
}
