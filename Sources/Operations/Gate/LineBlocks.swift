import Foundation
import Glibc
import SecureTransport

/// Reads lines in blocks, from a file or a pipe. Each block has whole lines; only the last line of all may
/// lack its line break.
final class LineBlocks {
    /// Bytes of a block, where the source has so many at once.
    private static let size = 1 << 20
    /// The longest line that is kept, in bytes. A token has at most 65,535 bytes.
    private static let longestLine = 1 << 20

    /// Lines that were longer than any token and were dropped.
    private(set) var overlong = 0

    private let descriptor: Int32
    private let name: String
    private let interrupt: Interrupt
    private var buffer: [UInt8] = []
    private var isSkipping = false
    private var isAtEnd = false

    /// Opens a file; `-` is standard input.
    ///
    /// - Throws: usage, where it cannot be opened.
    init(_ path: String, _ interrupt: Interrupt) throws(RunFailure) {
        self.interrupt = interrupt
        name = path == "-" ? "standard input" : path
        descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw RunFailure(
                .usage, .settings,
                "reading tokens from \(path): \(String(cString: strerror(errno)).lowercased()); "
                    + "check the path")
        }
    }

    deinit { if descriptor != STDIN_FILENO { close(descriptor) } }

    /// Passes on the next block; false at the end. `body` gets the block without copying.
    ///
    /// - Throws: usage, where it cannot be read; `stopped` after a stop signal; the errors of `body`.
    func next(_ body: (UnsafeRawBufferPointer) throws -> Void) throws -> Bool {
        while !isAtEnd {
            try fill()
            let end = isAtEnd ? buffer.count : (buffer.lastIndex(of: UInt8(ascii: "\n")) ?? -1) + 1
            guard end > 0 else {
                dropOverlong()
                continue
            }
            let first = firstLine(before: end)
            try buffer.withUnsafeBytes {
                if first < end { try body(UnsafeRawBufferPointer(rebasing: $0[first..<end])) }
            }
            buffer.removeSubrange(..<end)
            return true
        }
        return false
    }

    /// Where the first line that is not the rest of an overlong one begins.
    private func firstLine(before end: Int) -> Int {
        guard isSkipping else { return 0 }
        isSkipping = false
        return buffer[..<end].firstIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? end
    }

    private func dropOverlong() {
        guard buffer.count > Self.longestLine || isSkipping else { return }
        if !isSkipping { overlong += 1 }
        isSkipping = true
        buffer.removeAll(keepingCapacity: true)
    }

    /// Reads until there is a block, or nothing more to read at once. A slow source gets each line
    /// answered as it comes.
    private func fill() throws {
        var hasRead = false
        while buffer.count < Self.size + Self.longestLine {
            switch Poll.wait(
                descriptor, for: .reading, deadline: hasRead ? .now : .never, interrupt: interrupt)
            {
            case .interrupted: throw RunFailure.stopped
            case .timedOut: return
            case .failed(let cause): throw failure(cause)
            case .ready: break
            }
            let start = buffer.count
            buffer.append(contentsOf: repeatElement(0, count: 1 << 18))
            let count = buffer.withUnsafeMutableBytes { bytes in
                bytes.baseAddress.map { read(descriptor, $0 + start, 1 << 18) } ?? 0
            }
            let cause = errno
            buffer.removeLast((1 << 18) - max(0, count))
            if count < 0 && (cause == EINTR || cause == EAGAIN) { continue }
            guard count >= 0 else { throw failure(cause) }
            if count == 0 {
                isAtEnd = true
                return
            }
            hasRead = true
            if buffer.count >= Self.size { return }
        }
    }

    private func failure(_ cause: Int32) -> RunFailure {
        RunFailure(
            .usage, .settings,
            "reading tokens from \(name): \(String(cString: strerror(cause)).lowercased()); check the "
                + "path")
    }
}

/// One line of a block: its place with the line break, and its text without it.
struct TokenLine {
    /// The bytes with the line break.
    let whole: Range<Int>
    /// The bytes without spaces, tabs and the line break at its ends.
    let text: Range<Int>
}

extension UnsafeRawBufferPointer {
    /// Calls `body` for each line.
    func eachLine(_ body: (TokenLine) throws -> Void) rethrows {
        guard let base = baseAddress else { return }
        var start = 0
        while start < count {
            let found = memchr(base + start, Int32(UInt8(ascii: "\n")), count - start)
            let end = found.map { UnsafeRawPointer($0) - base } ?? count
            var (first, last) = (start, end)
            while first < last, Self.isSpace(self[first]) { first += 1 }
            while last > first, Self.isSpace(self[last - 1]) { last -= 1 }
            let next = found == nil ? end : end + 1
            try body(TokenLine(whole: start..<next, text: first..<last))
            start = next
        }
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || (9...13).contains(byte)
    }
}
