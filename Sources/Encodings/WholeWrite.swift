import Glibc

/// Writes all bytes; false with errno where that fails (write(2)). A part may be written then.
package func writeWhole(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Bool {
    var rest = bytes
    while !rest.isEmpty {
        let written = write(descriptor, rest.baseAddress, rest.count)
        if written < 0 && errno == EINTR { continue }
        guard written > 0 else { return false }
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(written))
    }
    return true
}

/// Writes all bytes of an array; see above.
package func writeWhole(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
    bytes.withUnsafeBytes { writeWhole($0, to: descriptor) }
}
