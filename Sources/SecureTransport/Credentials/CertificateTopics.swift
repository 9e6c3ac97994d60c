// Apple names the topics of a certificate in one of two places (Apple, "Establishing a certificate-based
// connection to APNs"): a certificate for several topics lists them in an extension of Apple's, one for
// a single topic has it as the user id of its subject.
//
//   1.2.840.113635.100.6.3.6   SEQUENCE { topic UTF8String, SEQUENCE { kind UTF8String }, ... }

import COpenSSL

/// The APNs topics of a certificate.
enum CertificateTopics {
    /// Apple's extension with the topics.
    static let topicsExtension = "1.2.840.113635.100.6.3.6"

    /// The topics that a certificate names; empty where it names none, or the extension cannot be
    /// read.
    static func read(_ certificate: OpaquePointer) -> [String] {
        if let value = value(of: topicsExtension, in: certificate) { return topics(der: value) }
        return userID(certificate).map { [$0] } ?? []
    }

    private static func value(of name: String, in certificate: OpaquePointer) -> [UInt8]? {
        guard let object = OBJ_txt2obj(name, 1) else { return nil }
        defer { ASN1_OBJECT_free(object) }
        let index = X509_get_ext_by_OBJ(certificate, object, -1)
        guard index >= 0, let entry = X509_get_ext(certificate, index),
            let data = X509_EXTENSION_get_data(entry), let start = ASN1_STRING_get0_data(data)
        else { return nil }
        return Array(UnsafeBufferPointer(start: start, count: Int(ASN1_STRING_length(data))))
    }

    private static func userID(_ certificate: OpaquePointer) -> String? {
        guard let subject = X509_get_subject_name(certificate),
            case let index = X509_NAME_get_index_by_NID(subject, NID_userId, -1), index >= 0,
            let entry = X509_NAME_get_entry(subject, index),
            let data = X509_NAME_ENTRY_get_data(entry), let start = ASN1_STRING_get0_data(data)
        else { return nil }
        let bytes = UnsafeBufferPointer(start: start, count: Int(ASN1_STRING_length(data)))
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }

    /// The strings directly inside the outer sequence; those of the sequences in it are kinds.
    static func topics(der: [UInt8]) -> [String] {
        der.withUnsafeBufferPointer { bytes in
            guard let start = bytes.baseAddress,
                let outer = element(at: start, before: start + bytes.count),
                outer.tag == V_ASN1_SEQUENCE
            else { return [] }
            var topics: [String] = []
            var place = outer.content.startIndex
            while place < outer.content.endIndex, let base = outer.content.baseAddress,
                let next = element(at: base + place, before: base + outer.content.count)
            {
                if next.tag == V_ASN1_UTF8STRING {
                    topics.append(String(decoding: next.content, as: UTF8.self))
                }
                place += next.length
            }
            return topics
        }
    }

    /// One element of DER: its tag, its content, and the number of bytes of both with the header.
    private struct Element {
        let tag: Int32
        let content: UnsafeBufferPointer<UInt8>
        let length: Int
    }

    private static func element(
        at start: UnsafePointer<UInt8>, before end: UnsafePointer<UInt8>
    ) -> Element? {
        var place: UnsafePointer<UInt8>? = start
        var (length, tag, kind) = (0, Int32(0), Int32(0))
        let flags = ASN1_get_object(&place, &length, &tag, &kind, end - start)
        // 0x80 is an error, 1 an indefinite length, which DER has not.
        guard flags & 0x81 == 0, let place, length >= 0, place + length <= end else {
            OpenSSLFault.discard()
            return nil
        }
        return Element(
            tag: tag, content: UnsafeBufferPointer(start: place, count: length),
            length: place - start + length)
    }
}
