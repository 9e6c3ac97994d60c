import SecureTransport
import Testing

@Suite("A SHA-256 digest")
struct DigestTests {
    @Test("the digest matches the vectors of FIPS 180-4 at any split, and can be continued")
    func vectors() throws {
        let empty = try SHA256Digest()
        #expect(
            try empty.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        let short = try SHA256Digest()
        try short.update(Array("ab".utf8))
        #expect(
            try short.hex() == "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603")
        try short.update(Array("c".utf8))
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        #expect(try short.hex() == known)
        #expect(try short.hex() == known)
    }
}
