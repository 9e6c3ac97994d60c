/// The FNV-1a hash: a short check of names, the same in every run and on every machine. It does not
/// withstand texts that are made to collide.
package enum FNV1a {
    /// The 32-bit hash of a text's UTF-8.
    package static func hash(_ text: String) -> UInt32 {
        text.utf8.reduce(2_166_136_261) { ($0 ^ UInt32($1)) &* 16_777_619 }
    }
}
