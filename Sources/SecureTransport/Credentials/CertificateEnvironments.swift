// Apple says in a certificate for which environment of APNs it is, by extensions without content of
// interest, and in the common name of older ones (Apple, "Certificate Policy for Worldwide Developer
// Relations", marker extensions of push certificates).
//
//   1.2.840.113635.100.6.3.1   development, which APNs calls sandbox
//   1.2.840.113635.100.6.3.2   production
//
//   Apple Development IOS Push Services: com.example.chat    sandbox
//   Apple Production IOS Push Services: com.example.chat     production
//   Apple Push Services: com.example.chat                    both

import COpenSSL

/// The environments of APNs that a certificate is for.
package enum CertificateEnvironment: String, Sendable, CaseIterable {
    /// Apps from the store.
    case production
    /// Apps in development.
    case sandbox

    /// Apple's extension that marks a certificate for this environment.
    private var marker: String {
        switch self {
        case .sandbox: "1.2.840.113635.100.6.3.1"
        case .production: "1.2.840.113635.100.6.3.2"
        }
    }

    /// The environments that a certificate names; empty where it names none, as one of a private
    /// gateway does.
    static func named(
        in certificate: OpaquePointer, commonName: String?
    ) -> Set<CertificateEnvironment> {
        let marked = Set(allCases.filter { $0.isMarked(in: certificate) })
        guard marked.isEmpty, let commonName, commonName.contains("Push Services: ") else {
            return marked
        }
        if commonName.hasPrefix("Apple Development ") { return [.sandbox] }
        if commonName.hasPrefix("Apple Production ") { return [.production] }
        return commonName.hasPrefix("Apple Push Services: ") ? Set(allCases) : []
    }

    private func isMarked(in certificate: OpaquePointer) -> Bool {
        guard let object = OBJ_txt2obj(marker, 1) else { return false }
        defer { ASN1_OBJECT_free(object) }
        return X509_get_ext_by_OBJ(certificate, object, -1) >= 0
    }
}
