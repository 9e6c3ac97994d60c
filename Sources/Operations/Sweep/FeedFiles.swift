import EvidenceJournal
import Foundation
import TokenHygiene

/// A file with the raw bytes of a feedback list, as another program saved them.
struct FeedFile {
    let source: GivenSource
    let partition: Partition

    /// Copies the file into the journal as a feed.
    ///
    /// - Returns: the feed's name.
    func capture(in journal: EvidenceJournal, run: String, _ context: RunContext) throws -> String {
        try journal.folder.ensureRoom()
        let capture = try journal.beginFeed(
            run: run, partition: partition, source: source.name, at: context.now())
        do {
            while try source.next({ bytes in
                try journal.folder.ensureRoom()
                try capture.append(bytes)
            }) {}
        } catch {
            try journal.discard(capture.id)
            throw error
        }
        try capture.close(.file, at: context.now())
        return capture.id
    }
}

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

/// A separate journal for the dry run of a file. The feed never enters the real journal, so a killed
/// trial leaves nothing that a later run would apply.
final class TrialFolder {
    private static let name = "trial"

    /// The folder. It is inside the state folder, since the file holds tokens.
    let folder: StateFolder

    /// Makes the folder of a trial, and replaces one that was left; nil when the plan is not a trial.
    /// The lock of the state folder prevents two trials at once.
    convenience init?(for plan: SweepPlan, in state: StateFolder) throws {
        guard plan.isTrial else {
            Self.removeLeft(in: state)
            return nil
        }
        try self.init(in: state)
    }

    /// Makes the folder of a trial, and replaces one that was left.
    init(in state: StateFolder) throws {
        Self.removeLeft(in: state)
        folder = try StateFolder(Self.name, in: state)
    }

    private static func removeLeft(in state: StateFolder) {
        let path = state.file(name)
        if access(path, F_OK) == 0 { try? FileManager.default.removeItem(atPath: path) }
    }

    deinit { try? FileManager.default.removeItem(atPath: folder.path) }
}
