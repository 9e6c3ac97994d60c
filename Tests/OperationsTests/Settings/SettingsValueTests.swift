import Testing

@testable import Operations

@Suite("Values of settings")
struct SettingsValueTests {
    let parser = SettingParser(folder: "/f")

    @Test(
        "times and sizes are read with their units and shown in the largest that fits",
        arguments: [
            ("500ms", 500, "500ms"), ("30s", 30_000, "30s"), ("90s", 90_000, "90s"),
            ("5m", 300_000, "5m"), ("60m", 3_600_000, "1h"), ("0s", 0, "0s"),
        ])
    func times(text: String, milliseconds: Int, shown: String) {
        #expect(SettingTime.milliseconds(text) == milliseconds)
        #expect(SettingTime.text(milliseconds) == shown)
    }

    @Test(
        "sizes are bytes or binary units",
        arguments: [
            ("100", 100, "100"), ("64KiB", 65_536, "64KiB"), ("64MiB", 67_108_864, "64MiB"),
            ("1024MiB", 1 << 30, "1GiB"), ("0", 0, "0"),
        ])
    func sizes(text: String, bytes: Int, shown: String) {
        #expect(SettingSize.bytes(text) == bytes)
        #expect(SettingSize.text(bytes) == shown)
    }

    @Test(
        "what is no whole number with a known unit is no time and no size",
        arguments: [
            "", "s", "-1s", "+1s", "1.5s", "1 s", "1d", "1S", "30", "99999999999999999999s",
            "9223372036854775807h", "1MB", "1kib", "٣s",
        ])
    func noQuantity(text: String) {
        #expect(SettingTime.milliseconds(text) == nil)
        if text != "30" { #expect(SettingSize.bytes(text) == nil) }
    }

    @Test(
        "zones are UTC or a fixed offset",
        arguments: [
            ("UTC", 0), ("Z", 0), ("+00:00", 0), ("-00:00", 0), ("+02:00", 7_200),
            ("-09:30", -34_200), ("+14:00", 50_400),
        ])
    func zones(text: String, seconds: Int) throws {
        #expect(
            try parser.value(text, .zone) == .zone(Settings.ZoneOffset(seconds: seconds)))
    }

    @Test(
        "no other zone is taken",
        arguments: [
            "", "CET", "utc", "Europe/Berlin", "+2", "+02", "+0200", "+14:01", "+15:00", "+01:60",
            "02:00", "+1é:0", "GMT+2", "++1:00",
        ])
    func noZone(text: String) {
        #expect(throws: SettingRefusal.self) { try parser.value(text, .zone) }
    }

    @Test("an offset is shown as SQL writes it")
    func zoneText() {
        #expect(Settings.ZoneOffset(seconds: 0).description == "+00:00")
        #expect(Settings.ZoneOffset(seconds: -34_200).description == "-09:30")
        #expect(Settings.ZoneOffset(seconds: -1_800).description == "-00:30")
    }

    @Test(
        "addresses of the token database are taken apart, and shown as they can be written",
        arguments: [
            ("sqlite:///v/t.sqlite", .sqlite(path: "/v/t.sqlite"), "sqlite:///v/t.sqlite"),
            ("sqlite://t%23.db", .sqlite(path: "/f/t#.db"), "sqlite:///f/t%23.db"),
            (
                "mysql://u@h/push", .mysql(host: "h", port: 3306, user: "u", database: "push"),
                "mysql://u@h:3306/push"
            ),
            (
                "mysql://h:1/p%40q", .mysql(host: "h", port: 1, user: nil, database: "p@q"),
                "mysql://h:1/p%40q"
            ),
            (
                "mysql://a%40b@[::1]:3307/p",
                .mysql(host: "::1", port: 3307, user: "a@b", database: "p"),
                "mysql://a%40b@[::1]:3307/p"
            ),
            (
                "mysql+unix:///run/m.sock?db=push",
                .mysqlSocket(path: "/run/m.sock", user: nil, database: "push"),
                "mysql+unix:///run/m.sock?db=push"
            ),
            (
                "mysql+unix://me@/run/m.sock?db=push",
                .mysqlSocket(path: "/run/m.sock", user: "me", database: "push"),
                "mysql+unix://me@/run/m.sock?db=push"
            ),
        ] as [(String, Settings.Store.Location, String)])
    func addresses(text: String, location: Settings.Store.Location, shown: String) throws {
        #expect(try parser.value(text, .storeAddress) == .store(location))
        #expect(location.description == shown)
        #expect(try parser.value(shown, .storeAddress) == .store(location))
    }

    @Test(
        "other addresses are refused without being quoted",
        arguments: [
            "push", "postgres://h/p", "mysql://", "mysql://h", "mysql://h/", "mysql://h/a/b",
            "mysql://h:0/p", "mysql://h:65536/p", "mysql://h:/p", "mysql://:3306/p",
            "mysql://u:secret@h/p", "mysql://u:se/cret@h/p", "mysql://u:s@cret@h/p",
            "mysql://u:secret?@h/p", "mysql://u:secret#@h/p", "mysql://@h/p",
            "mysql://h/p?ssl=0", "mysql://h/%zz", "mysql://h/%+f", "mysql://h/%0a", "mysql://h/%ff",
            "mysql://[::1/p", "mysql://[::1]x/p", "mysql+unix:///run/m.sock",
            "mysql+unix://run/m.sock?db=p", "mysql+unix:///m.sock?db=", "mysql+unix:///m?db=p&x=1",
            "mysql+unix://u:secret@/m?db=p", "sqlite://", "sqlite:///v/", "sqlite:///v?mode=ro",
        ])
    func noAddress(text: String) {
        let refusal = #expect(throws: SettingRefusal.self) {
            try parser.value(text, .storeAddress)
        }
        #expect(refusal?.reason.contains("secret") == false)
        #expect(refusal?.reason.contains("cret") == false)
    }

    @Test(
        "hosts are names or addresses and nothing around them",
        arguments: [
            ("gate.example.net", true), ("127.0.0.1", true), ("::1", true), ("a_b", true),
            ("https://h", false), ("h:1", false), ("h/", false), ("-h", false), ("h h", false),
            ("", false), ("höst", false),
        ])
    func hosts(text: String, isHost: Bool) {
        #expect(SettingText.isHost(text) == isHost)
    }

    @Test("bad input is quoted in one bounded line")
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
