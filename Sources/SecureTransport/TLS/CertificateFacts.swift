import COpenSSL
import Encodings
import Glibc

/// What a certificate says, as values.
package struct CertificateFacts: Sendable, Equatable {
    /// The whole subject as RFC 2253 prints it, control characters escaped.
    package let subject: String
    /// The subject's last common name, if it has one.
    package let commonName: String?
    /// The issuer as RFC 2253 prints it.
    package let issuer: String
    /// Start of validity, seconds since 1970-01-01T00:00:00Z.
    package let notBefore: Int64
    /// End of validity, seconds since 1970-01-01T00:00:00Z.
    package let notAfter: Int64
    /// SHA-256 of the DER form, 64 lower-case hex digits.
    package let fingerprint: String

    init(_ certificate: OpaquePointer) {
        subject = Self.printed(X509_get_subject_name(certificate))
        commonName = Self.commonName(X509_get_subject_name(certificate))
        issuer = Self.printed(X509_get_issuer_name(certificate))
        notBefore = Self.seconds(X509_get0_notBefore(certificate))
        notAfter = Self.seconds(X509_get0_notAfter(certificate))
        fingerprint = Self.fingerprint(certificate)
    }

    private static func printed(_ name: OpaquePointer?) -> String {
        guard let name, let stream = MemoryStream(), pushsweep_name_print(stream.bio, name) >= 0
        else {
            return ""
        }
        return String(decoding: stream.contents, as: UTF8.self)
    }

    private static func commonName(_ name: OpaquePointer?) -> String? {
        var index: Int32 = -1
        while true {
            let next = X509_NAME_get_index_by_NID(name, NID_commonName, index)
            if next < 0 {
                break
            }
            index = next
        }
        guard index >= 0, let entry = X509_NAME_get_entry(name, index) else {
            return nil
        }
        var text: UnsafeMutablePointer<UInt8>?
        let length = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry))
        guard length >= 0, let text else {
            return nil
        }
        defer { CRYPTO_free(text, #file, #line) }
        return String(
            decoding: UnsafeBufferPointer(start: text, count: Int(length)), as: UTF8.self)
    }

    private static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var parts = tm()
        guard let time, ASN1_TIME_to_tm(time, &parts) == 1 else {
            return 0
        }
        return Int64(timegm(&parts))
    }

    private static func fingerprint(_ certificate: OpaquePointer) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        guard X509_digest(certificate, EVP_sha256(), &digest, &length) == 1 else {
            return ""
        }
        return Hex.text(digest)
    }
}
