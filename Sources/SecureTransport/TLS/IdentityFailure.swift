/// Why our own certificate or key cannot be used. Always a matter of files and settings, never of
/// the network, so it is found before connecting.
package struct IdentityFailure: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kinds of failure a caller may treat differently.
    package enum Code: Sendable, Equatable {
        /// No such file.
        case missing
        /// The file cannot be opened or read, or is no regular file.
        case unreadable
        /// A file with a secret may be read or changed by others; `mode` holds its permission bits.
        case readableByOthers(mode: UInt32)
        /// A file with a secret belongs to neither this user nor root; `owner` is the user's number.
        case foreign(owner: UInt32)
        /// The passphrase does not open the key.
        case wrongPassphrase
        /// The key is encrypted and no passphrase was given.
        case passphraseNeeded
        /// The content is not what it should be.
        case malformed
        /// The key belongs to another certificate.
        case keyMismatch
        /// The certificate's time is over.
        case expired
        /// The certificate's time has not begun.
        case notYetValid
        /// An old PKCS#12 file needs OpenSSL's legacy provider, which is not installed.
        case legacyProviderMissing
    }

    /// The kind of failure.
    package let code: Code
    /// One line: what was read, what is wrong with it, what to do next. Never a secret.
    package let description: String

    /// States a failure.
    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}
