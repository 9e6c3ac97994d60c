import EvidenceJournal
import Foundation

/// Copies the raw bytes of a captured feed into a file.
package struct FeedExport {
    private let feed: String
    private let path: String

    /// Takes the name of the feed and the path of the new file.
    package init(feed: String, path: String) {
        self.feed = feed
        self.path = path
    }

    /// Writes the file, mode 0600, never over an existing one.
    ///
    /// - Returns: the number of bytes.
    package func write(from journal: EvidenceJournal) throws -> Int {
        try journal.ensureBytes(of: feed)
        // O_EXCL follows no link and overwrites nothing (open(2)), also in another user's folder.
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw RunFailure(
                .cannotCreate, .report,
                "creating \(path) for feed \(feed): \(String(cString: strerror(errno))); name a "
                    + "file that does not exist in a folder that can be written")
        }
        let file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        var bytes = 0
        do {
            try journal.forEachChunk(of: feed) { chunk in
                try write(chunk, to: file)
                bytes += chunk.count
            }
        } catch {
            unlink(path)
            throw error
        }
        return bytes
    }

    private func write(_ chunk: UnsafeRawBufferPointer, to file: FileHandle) throws(RunFailure) {
        do {
            try file.write(contentsOf: Data(chunk))
        } catch {
            throw RunFailure(
                .cannotCreate, .report,
                "writing feed \(feed) to \(path): \(error.localizedDescription); free disk space or "
                    + "name a file elsewhere")
        }
    }
}
