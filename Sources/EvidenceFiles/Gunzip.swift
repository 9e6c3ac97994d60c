import CZlib

/// Expands gzip (RFC 1952) piece by piece, also of several members in a row, as log rotation and
/// `cat a.gz b.gz` make them.
package final class Gunzip {
    private static let room = 1 << 18

    // zlib keeps a pointer to the structure, so it has to stay at one address.
    private let stream: UnsafeMutablePointer<z_stream>
    private var buffer = [UInt8](repeating: 0, count: Gunzip.room)
    private var isBetweenMembers = false

    /// Whether bytes begin like gzip: 1F 8B (RFC 1952 section 2.3.1).
    package static func isGzip(_ bytes: some Collection<UInt8>) -> Bool {
        bytes.starts(with: [0x1F, 0x8B])
    }

    /// Begins before the first byte.
    ///
    /// - Throws: when zlib cannot get its memory.
    package init() throws(UnreadableFile) {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard pushsweep_inflate_gzip(stream) == Z_OK else {
            stream.deallocate()
            throw UnreadableFile.gzip("zlib has no memory to expand it")
        }
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Expands the next bytes and passes what they hold to a body, in pieces of at most 256 KiB.
    ///
    /// - Throws: `UnreadableFile` for bytes that are no gzip; the errors of the body.
    package func expand(
        _ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return }
        stream.pointee.next_in = UnsafeMutablePointer(
            mutating: start.assumingMemoryBound(to: UInt8.self))
        stream.pointee.avail_in = UInt32(bytes.count)
        while stream.pointee.avail_in > 0 {
            if isBetweenMembers {
                guard inflateReset(stream) == Z_OK else { throw failure }
                isBetweenMembers = false
            }
            var count = 0
            let status = buffer.withUnsafeMutableBufferPointer { room in
                repeat {
                    stream.pointee.next_out = room.baseAddress.map { $0 + count }
                    stream.pointee.avail_out = UInt32(room.count - count)
                    let status = inflate(stream, Z_NO_FLUSH)
                    count = room.count - Int(stream.pointee.avail_out)
                    if status != Z_OK { return status }
                } while count < room.count && stream.pointee.avail_in > 0
                return Z_OK
            }
            if count > 0 { try buffer[..<count].withUnsafeBytes(body) }
            switch status {
            case Z_OK, Z_BUF_ERROR: break
            case Z_STREAM_END: isBetweenMembers = true
            default: throw failure
            }
        }
    }

    /// Checks that the last member is complete.
    ///
    /// - Throws: `UnreadableFile` where the end is missing.
    package func finish() throws(UnreadableFile) {
        guard isBetweenMembers else {
            throw UnreadableFile.gzip("its gzip data end too early")
        }
    }

    private var failure: UnreadableFile {
        let cause = stream.pointee.msg.map { String(cString: $0) } ?? "unknown form"
        return UnreadableFile.gzip("its gzip data are damaged (\(cause))")
    }
}

/// The content of a file that comes in pieces: its bytes, expanded where they are gzip.
package struct FileContent {
    private var gunzip: Gunzip?
    /// The first bytes, as long as they do not show whether they are gzip; nil after that.
    private var first: [UInt8]? = []

    /// Begins before the first byte.
    package init() {}

    /// Takes the next bytes of the file and passes what they hold to a body.
    ///
    /// - Throws: `UnreadableFile` for damaged gzip; the errors of the body.
    package mutating func take(
        _ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        guard var begin = first else { return try expand(bytes, body) }
        begin.append(contentsOf: bytes)
        first = begin
        guard begin.count > 1 else { return }
        first = nil
        if Gunzip.isGzip(begin) { gunzip = try Gunzip() }
        try begin.withUnsafeBytes { try expand($0, body) }
    }

    /// Ends the file; a body may get a last piece.
    ///
    /// - Throws: as `take`, also for gzip without its end.
    package mutating func finish(_ body: (UnsafeRawBufferPointer) throws -> Void) throws {
        if let begin = first {
            first = nil
            try begin.withUnsafeBytes { try expand($0, body) }
        }
        try gunzip?.finish()
    }

    private func expand(
        _ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) throws -> Void
    ) throws {
        guard let gunzip else { return try body(bytes) }
        try gunzip.expand(bytes, body)
    }
}
