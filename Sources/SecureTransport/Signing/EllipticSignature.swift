import COpenSSL

/// Questions about keys.
package enum EllipticKey {
    /// Whether an EVP_PKEY is one of the curve P-256.
    package static func isOnP256(_ key: OpaquePointer) -> Bool {
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard EVP_PKEY_get_group_name(key, &name, name.count, &length) == 1 else {
            OpenSSLFault.discard()
            return false
        }
        let text = String(decoding: name.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
        // OBJ names of the one curve: X9.62 and FIPS 186.
        return text == "prime256v1" || text == "P-256"
    }
}

/// The two spellings of a signature on P-256.
package enum EllipticSignature {
    /// Bytes of r, and of s.
    private static let half = 32

    /// r and s from DER (RFC 3279 section 2.2.3); nil where it is none.
    static func raw(_ encoded: ArraySlice<UInt8>) -> [UInt8]? {
        let parsed = encoded.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            return d2i_ECDSA_SIG(nil, &position, bytes.count)
        }
        guard let parsed else {
            return nil
        }
        defer { ECDSA_SIG_free(parsed) }
        var raw = [UInt8](repeating: 0, count: 2 * half)
        let written = raw.withUnsafeMutableBufferPointer { bytes -> Bool in
            guard let start = bytes.baseAddress else {
                return false
            }
            let width = Int32(half)
            return BN_bn2binpad(ECDSA_SIG_get0_r(parsed), start, width) == width
                && BN_bn2binpad(ECDSA_SIG_get0_s(parsed), start + half, width) == width
        }
        return written ? raw : nil
    }

    /// DER from r and s; nil unless there are 64 bytes.
    package static func encoded(_ raw: [UInt8]) -> [UInt8]? {
        guard raw.count == 2 * half, let signature = ECDSA_SIG_new() else {
            return nil
        }
        defer { ECDSA_SIG_free(signature) }
        let r = BN_bin2bn(raw, Int32(half), nil)
        let s = Array(raw[half...]).withUnsafeBufferPointer {
            BN_bin2bn($0.baseAddress, Int32(half), nil)
        }
        guard let r, let s, ECDSA_SIG_set0(signature, r, s) == 1 else {
            BN_free(r)
            BN_free(s)
            return nil
        }
        var bytes: UnsafeMutablePointer<UInt8>?
        let length = i2d_ECDSA_SIG(signature, &bytes)
        guard length > 0, let bytes else {
            return nil
        }
        defer { CRYPTO_free(bytes, #file, #line) }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(length)))
    }
}
