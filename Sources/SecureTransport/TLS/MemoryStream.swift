import COpenSSL

/// A BIO in memory (BIO_s_mem(3)): what OpenSSL's PEM and PKCS#12 functions read and write.
package final class MemoryStream {
    /// The stream as OpenSSL's functions take it, valid as long as this object.
    package let bio: OpaquePointer

    /// Begins with bytes to be read; nil only when memory ran out.
    package init?(_ bytes: [UInt8] = []) {
        guard let bio = BIO_new(BIO_s_mem()) else {
            return nil
        }
        self.bio = bio
        if !bytes.isEmpty {
            guard BIO_write(bio, bytes, Int32(bytes.count)) == Int32(bytes.count) else {
                return nil
            }
        }
    }

    deinit {
        BIO_free(bio)
    }

    /// What was written and not yet read.
    package var contents: [UInt8] {
        var start: UnsafeMutablePointer<CChar>?
        let count = pushsweep_bio_contents(bio, &start)
        guard let start, count > 0 else {
            return []
        }
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }
}
