import COpenSSL

/// Apple's extension with the topics of a certificate for several (Apple, "Establishing a
/// certificate-based connection to APNs"): 1.2.840.113635.100.6.3.6, a SEQUENCE of each topic as
/// UTF8String and its kinds as SEQUENCE of UTF8String.
enum TopicsExtension {
    /// Adds the extension; false where OpenSSL refuses it.
    static func add(_ topics: [String], to certificate: OpaquePointer) -> Bool {
        guard let object = OBJ_txt2obj("1.2.840.113635.100.6.3.6", 1),
            let data = ASN1_OCTET_STRING_new()
        else { return false }
        defer {
            ASN1_OBJECT_free(object)
            ASN1_OCTET_STRING_free(data)
        }
        let content = encoded(topics)
        guard ASN1_OCTET_STRING_set(data, content, Int32(content.count)) == 1,
            let part = X509_EXTENSION_create_by_OBJ(nil, object, 0, data)
        else { return false }
        defer { X509_EXTENSION_free(part) }
        return X509_add_ext(certificate, part, -1) == 1
    }

    /// The DER of the extension's value.
    private static func encoded(_ topics: [String]) -> [UInt8] {
        element(
            0x30,
            topics.flatMap { topic in
                text(topic) + element(0x30, text(topic.split(separator: ".").last.map(kind) ?? ""))
            })
    }

    /// The kind that Apple writes beside a topic.
    private static func kind(_ end: Substring) -> String {
        ["voip", "complication"].contains(end) ? String(end) : "app"
    }

    private static func text(_ text: String) -> [UInt8] { element(0x0C, Array(text.utf8)) }

    /// One element: tag, length (X.690 section 8.1.3, at most 65,535), content.
    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        let length: [UInt8] =
            switch count {
            case ..<0x80: [UInt8(count)]
            case ..<0x100: [0x81, UInt8(count)]
            default: [0x82, UInt8(count >> 8), UInt8(count & 0xFF)]
            }
        return [tag] + length + content
    }
}
