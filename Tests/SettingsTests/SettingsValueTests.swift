import Database
import Encodings
import Testing

@testable import Settings

@Suite("Values of settings")
struct SettingsValueTests {
    @Test(
        "times and sizes are read with their units and shown in the largest that fits",
        arguments: [
            (.time, "500ms", 500, "500ms"), (.time, "30s", 30_000, "30s"),
            (.time, "90s", 90_000, "90s"), (.time, "5m", 300_000, "5m"),
            (.time, "60m", 3_600_000, "1h"), (.time, "24h", 86_400_000, "1d"),
            (.time, "0s", 0, "0s"), (.size, "100", 100, "100"),
            (.size, "64KiB", 65_536, "64KiB"), (.size, "64MiB", 67_108_864, "64MiB"),
            (.size, "1024MiB", 1 << 30, "1GiB"), (.size, "0", 0, "0"),
        ] as [(SettingQuantity, String, Int, String)])
    func quantities(quantity: SettingQuantity, text: String, number: Int, shown: String) {
        #expect(quantity.number(text) == number)
        #expect(quantity.text(number) == shown)
    }

    @Test(
        "a text that is not a whole number with a known unit is not a time or a size",
        arguments: [
            "", "s", "-1s", "+1s", "1.5s", "1 s", "1w", "1S", "30", "99999999999999999999s",
            "9223372036854775807h", "1MB", "1kib", "٣s",
        ])
    func noQuantity(text: String) {
        #expect(SettingQuantity.time.number(text) == nil)
        if text != "30" { #expect(SettingQuantity.size.number(text) == nil) }
    }

    @Test(
        "zones are UTC or a fixed offset",
        arguments: [
            ("UTC", 0), ("Z", 0), ("+00:00", 0), ("-00:00", 0), ("+02:00", 7_200),
            ("-09:30", -34_200), ("+14:00", 50_400),
        ])
    func zones(text: String, seconds: Int) throws {
        #expect(
            try SettingKind<ZoneOffset>.zone.read(.text(text, plain: true), "/f").value
                == ZoneOffset(seconds: seconds))
    }

    @Test(
        "no other zone is accepted",
        arguments: [
            "", "CET", "utc", "Europe/Berlin", "+2", "+02", "+0200", "+14:01", "+15:00", "+01:60",
            "02:00", "+1é:0", "GMT+2", "++1:00",
        ])
    func noZone(text: String) {
        #expect(throws: Refusal.self) {
            try SettingKind<ZoneOffset>.zone.read(.text(text, plain: true), "/f")
        }
    }

    @Test("an offset is shown as SQL writes it")
    func zoneText() {
        #expect(ZoneOffset(seconds: 0).description == "+00:00")
        #expect(ZoneOffset(seconds: -34_200).description == "-09:30")
        #expect(ZoneOffset(seconds: -1_800).description == "-00:30")
    }

    @Test("an address of the token database is relative to the folder of the settings")
    func address() throws {
        #expect(
            try SettingKind<StoreLocation>.storeAddress.read(
                .text("sqlite://t.sqlite", plain: true), "/f"
            ).value == .sqlite(path: "/f/t.sqlite"))
    }

    @Test(
        "hosts are names or addresses without anything around them",
        arguments: [
            ("gate.example.net", true), ("127.0.0.1", true), ("::1", true), ("a_b", true),
            ("https://h", false), ("h:1", false), ("h/", false), ("-h", false), ("h h", false),
            ("", false), ("höst", false),
        ])
    func hosts(text: String, isHost: Bool) {
        #expect(PlainText.isHost(text) == isHost)
    }

    @Test("bad input is quoted in one line of limited length")
    func quoting() {
        #expect(SettingText.quoted("a\nb") == #"'a\nb'"#)
        #expect(SettingText.quoted("\u{1B}[31m\u{202E}") == #"'\u{1B}[31m\u{202E}'"#)
        let long = SettingText.quoted(String(repeating: "x", count: 1000))
        #expect(long.count == 45)
    }

    @Test(
        "the nearest name is the one with the fewest edits, if it is near at all",
        arguments: [
            ("hots", "host"), ("Port", "port"), ("idletimeout", "idle-timeout"),
            ("verbose", nil), ("", nil),
        ] as [(String, String?)])
    func nearest(name: String, expected: String?) {
        let names = ["host", "port", "ca", "idle-timeout"]
        #expect(NearestName.find(name, in: names) == expected)
    }
}
