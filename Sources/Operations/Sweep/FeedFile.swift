import EvidenceJournal
import Foundation
import TokenHygiene

/// A file with the raw bytes of a feedback list, as another program saved them.
struct FeedFile {
    private static let bytesPerChunk = 1 << 20

    let path: String
    let partition: Partition

    /// Copies the file into the journal as a feed.
    ///
    /// - Returns: the feed's name.
    func capture(in journal: EvidenceJournal, run: String, _ context: RunContext) throws -> String {
        guard let file = FileHandle(forReadingAtPath: path) else {
            throw unusable(String(cString: strerror(errno)))
        }
        defer { try? file.close() }
        // A folder can be opened like a file, but its first read fails without a clear message.
        var facts = stat()
        if fstat(file.fileDescriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFDIR {
            throw unusable("it is a directory")
        }
        try journal.folder.ensureRoom()
        let capture = try journal.beginFeed(
            run: run, partition: partition, source: path, at: context.now())
        do {
            while let bytes = try read(file), !bytes.isEmpty {
                try bytes.withUnsafeBytes { try capture.append($0) }
            }
        } catch {
            try journal.discard(capture.id)
            throw error
        }
        try capture.close(.file, at: context.now())
        return capture.id
    }

    private func unusable(_ cause: String) -> RunFailure {
        RunFailure(
            .usage, .read,
            "opening the feed file \(path): \(cause); name a file with the raw bytes of a feed")
    }

    private func read(_ file: FileHandle) throws -> Data? {
        do {
            return try file.read(upToCount: Self.bytesPerChunk)
        } catch {
            throw RunFailure(
                .usage, .read,
                "reading the feed file \(path): \(error.localizedDescription); nothing of it was "
                    + "applied, check the disk it lies on and run again")
        }
    }
}
