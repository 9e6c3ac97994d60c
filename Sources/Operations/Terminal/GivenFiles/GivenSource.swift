import Encodings
import EvidenceJournal
import Glibc
import SecureTransport

/// The bytes of a file or pipe that the command line names; `-` is standard input. Each wait ends at
/// once on a stop signal, also that for the first writer of a pipe.
package final class GivenSource {
    /// Bytes that are passed on at once where the source has so many.
    private static let size = 1 << 20

    /// The name in messages.
    package let name: String
    /// Number of bytes of a regular file, compressed or not; nil for a pipe.
    let length: Int?
    /// Where a regular file was to be read from, which a shell may have moved.
    private let start: off_t
    /// The size and the time of the last change of a file of others, as they were at the beginning.
    private let version: [Int]?
    /// The first and the last bytes that were read, at most `longestSample` each, with their places.
    private var samples: (first: Sample?, last: Sample?)
    private typealias Sample = (place: off_t, bytes: [UInt8])
    private static let longestSample = 4_096

    private let descriptor: Int32
    /// What is done with it, such as `importing`, for messages.
    private let doing: String
    private let stage: RunFailure.Stage
    private let interrupt: Interrupt
    /// The file that holds the bytes of a pipe; it closes the descriptor.
    private let spool: SpoolFile?
    private var buffer = [UInt8](repeating: 0, count: GivenSource.size)
    /// Bytes that were looked at before and are the next ones; nil where none were.
    private var ahead: Int?

    /// Opens a file or pipe, without a wait.
    ///
    /// - Throws: usage, where it cannot be opened or is a folder.
    package init(
        _ path: String, doing: String, at stage: RunFailure.Stage, _ interrupt: Interrupt
    ) throws(RunFailure) {
        (self.doing, self.stage, self.interrupt, spool) = (doing, stage, interrupt, nil)
        name = path == "-" ? "standard input" : path
        // With O_NONBLOCK a pipe that nobody writes to is opened all the same (fifo(7)).
        descriptor =
            path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
        let cause = errno
        var facts = stat()
        let isKnown = descriptor >= 0 && fstat(descriptor, &facts) == 0
        let isFile = isKnown && facts.st_mode & S_IFMT == S_IFREG
        length = isFile ? Int(facts.st_size) : nil
        version = isFile ? Self.version(facts) : nil
        start = isFile ? max(0, lseek(descriptor, 0, SEEK_CUR)) : 0
        guard descriptor >= 0 else { throw failure(Self.words(cause) + "; check the path") }
        guard !isKnown || facts.st_mode & S_IFMT != S_IFDIR else {
            throw failure("it is a directory; name a file")
        }
    }

    private init(_ source: GivenSource, spooledTo spool: SpoolFile) {
        (doing, stage, interrupt) = (source.doing, source.stage, source.interrupt)
        (name, length, self.spool) = (source.name, spool.count, spool)
        (descriptor, version, start) = (spool.descriptor, nil, 0)
    }

    deinit { if descriptor > STDIN_FILENO, spool == nil { close(descriptor) } }

    /// Reads a pipe to its end into a file, so that reading the bytes again needs no wait for another
    /// process.
    ///
    /// - Throws: as `next`, and failures of the state folder, also where the disk has no room.
    func spooled(to spool: SpoolFile) throws -> GivenSource {
        while try next({ try spool.append($0) }) {}
        try spool.rewind()
        return GivenSource(self, spooledTo: spool)
    }

    /// Begins again with the first byte of a regular file.
    ///
    /// - Throws: usage, where the system refuses it.
    func rewind() throws(RunFailure) {
        ahead = nil
        guard lseek(descriptor, start, SEEK_SET) == start else {
            throw failure(Self.words(errno))
        }
    }

    /// Looks at the first bytes without taking them, so that a source that cannot be read is found early.
    ///
    /// - Throws: as `next`.
    package func lookAhead() throws {
        let count = try fill()
        ahead = count
        try telling {
            var splitter = LineSplitter()
            try buffer[..<count].withUnsafeBytes { try splitter.take($0) { _, _ in } }
            try splitter.finish { _, _ in }
        }
    }

    /// Passes the next bytes to a body; false at the end. A slow source gets each piece answered as it
    /// comes.
    ///
    /// - Throws: usage, where it cannot be read or changed meanwhile; exit 75 after a stop signal, exit 65
    ///   for text of another encoding; the errors of `body`.
    package func next(_ body: (UnsafeRawBufferPointer) throws -> Void) throws -> Bool {
        let count = try ahead ?? fill()
        ahead = nil
        guard count > 0 else {
            try ensureUnchanged()
            return false
        }
        try telling { try buffer[..<count].withUnsafeBytes(body) }
        return true
    }

    /// Passes the blocks of whole lines to a body, as `LineSplitter` does, until it returns false.
    ///
    /// - Throws: as `next`.
    package func lines(
        _ body: (_ block: UnsafeRawBufferPointer, _ isCut: Bool) throws -> Bool
    ) throws {
        var splitter = LineSplitter()
        var isWanted = true
        while isWanted,
            try next({ bytes in
                try splitter.take(bytes) { if isWanted { isWanted = try body($0, $1) } }
            })
        {}
        guard isWanted else { return }
        try telling { try splitter.finish { if isWanted { isWanted = try body($0, $1) } } }
    }

    /// The lines of a text without the white space at their ends, empty ones too.
    ///
    /// - Throws: as `next`; usage for more than `most` bytes, or for a line of more than 1 MiB.
    package func lines(atMost most: Int) throws -> [String] {
        var (texts, count) = ([String](), 0)
        try lines { block, isCut in
            count += block.count
            guard !isCut else {
                throw failure("it has more than 1 MiB in one line, which is the limit")
            }
            guard count <= most else {
                throw failure("it has more than \(most >> 20) MiB, which is the limit")
            }
            block.eachLine { texts.append(String(decoding: block[$0.text], as: UTF8.self)) }
            return true
        }
        return texts
    }

    /// Names this source in the failure of a body.
    private func telling(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch let text as Refusal {
            throw failure("\(text)", .quarantined)
        }
    }

    /// Reads until the buffer is full, or nothing more can be read at once; 0 at the end.
    private func fill() throws(RunFailure) -> Int {
        var filled = 0
        while filled < Self.size {
            let deadline = filled > 0 ? Deadline.now : .never
            switch Poll.wait(descriptor, for: .reading, deadline: deadline, interrupt: interrupt) {
            case .interrupted: throw stopped
            case .timedOut: return filled
            case .failed(let cause): throw failure(Self.words(cause))
            case .ready: break
            }
            let count = buffer.withUnsafeMutableBytes { bytes in
                read(descriptor, bytes.baseAddress.map { $0 + filled }, Self.size - filled)
            }
            let cause = errno
            if count < 0 && (cause == EINTR || cause == EAGAIN) { continue }
            guard count >= 0 else { throw failure(Self.words(cause) + "; nothing of it counts") }
            if count == 0 { return filled }
            if version != nil { sample(buffer[filled..<filled + count]) }
            filled += count
        }
        return filled
    }

    /// Notes the ends of bytes that were just read.
    private func sample(_ bytes: ArraySlice<UInt8>) {
        let end = lseek(descriptor, 0, SEEK_CUR)
        let last = Array(bytes.suffix(Self.longestSample))
        samples.last = (end - off_t(last.count), last)
        guard samples.first == nil else { return }
        samples.first = (end - off_t(bytes.count), Array(bytes.prefix(Self.longestSample)))
    }

    /// A log that is cut off or written anew while it is read gives bytes of two times. One that only grows
    /// still has what was read first and last at its place.
    private func ensureUnchanged() throws(RunFailure) {
        var facts = stat()
        guard let version, fstat(descriptor, &facts) == 0, Self.version(facts) != version else {
            return
        }
        let isThere = [samples.first, samples.last].compactMap { $0 }.allSatisfy { sample in
            var now = [UInt8](repeating: 0, count: sample.bytes.count)
            return pread(descriptor, &now, now.count, sample.place) == now.count
                && now == sample.bytes
        }
        guard !isThere else { return }
        throw failure(
            "the file changed while it was read; nothing of it counts; read a file that nobody rewrites, "
                + "such as a copy")
    }

    private static func version(_ facts: stat) -> [Int] {
        [Int(facts.st_size), facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec]
    }

    /// The failure after a stop signal.
    var stopped: RunFailure {
        failure("told to stop while reading; nothing of it counts", .pending)
    }

    private static func words(_ cause: Int32) -> String {
        String(cString: strerror(cause)).lowercased()
    }

    /// A failure about this source.
    func failure(_ cause: String, _ exit: ExitStatus = .usage) -> RunFailure {
        RunFailure(exit, stage, "\(doing) \(name): \(cause)")
    }
}
