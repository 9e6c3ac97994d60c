import Encodings
import TestSupport
import Testing

@Suite("Hex")
struct HexTests {
    @Test("hex is written in lower case and read in any case, for bytes of every value")
    func roundTrip() {
        let bytes = Array(UInt8.min...UInt8.max)
        let text = Hex.text(bytes)
        #expect(text.hasPrefix("000102") && text.hasSuffix("fdfeff") && text.utf8.count == 512)
        #expect(Hex.bytes(text.utf8) == bytes)
        #expect(Hex.bytes(text.uppercased().utf8) == bytes)
        #expect(Hex.text([UInt8]()) == "" && Hex.bytes("".utf8) == [])
    }

    @Test("hex is the same appended to a buffer and written into one")
    func buffers() {
        var appended = Array("0x".utf8)
        Hex.append([0x0F, 0xA0], to: &appended)
        var written = Array("0x....".utf8)
        written.withUnsafeMutableBytes { buffer in
            Hex.write(0x0F, into: buffer, at: 2)
            Hex.write(0xA0, into: buffer, at: 4)
        }
        #expect(appended == written && String(decoding: written, as: UTF8.self) == "0x0fa0")
    }

    @Test(
        "hex of an odd length or with any other character is refused",
        arguments: ["0", "0g", "g0", "0 ", " 00 ", "+1", "-1", "0x", "００", "０0", "\u{0}0"])
    func refusals(text: String) {
        #expect(Hex.bytes(text.utf8) == nil)
    }
}

@Suite("Base64 for URLs")
struct Base64URLTests {
    @Test("the encoding matches RFC 4648 section 10 without padding, with its two own characters")
    func vectors() {
        for (plain, text) in [
            ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"), ("foobar", "Zm9vYmFy"),
        ] {
            #expect(Base64URL.text(plain.utf8) == text)
            #expect(Base64URL.decode(text.utf8) == Array(plain.utf8))
        }
        #expect(
            Base64URL.text([0xFB, 0xFF]) == "-_8" && Base64URL.decode("-_8".utf8) == [0xFB, 0xFF])
    }

    @Test("random bytes survive encoding and decoding")
    func roundTrips() {
        var random = SeededGenerator("base64url")
        for _ in 0..<500 {
            let bytes = random.bytes(.random(in: 0...70, using: &random))
            #expect(Base64URL.decode(Base64URL.text(bytes).utf8) == bytes, "seed \(random.seed)")
        }
    }

    @Test(
        "padding, unused bits, a lone character or another alphabet is refused",
        arguments: ["Zg==", "Zh", "Zm9", "Z", "Zm9vY", "+/8", "Zm 9v", "Zm9v\n", "ä"])
    func refusals(text: String) {
        #expect(Base64URL.decode(text.utf8) == nil)
    }
}
