import Database
import Encodings
import Testing

@Suite("Addresses of the token database")
struct StoreLocationTests {
    private static func tcp(
        _ host: String, _ port: Int, _ user: String, _ database: String
    ) -> StoreLocation {
        .server(.init(address: .tcp(host: host, port: port), user: user, database: database))
    }

    private static func socket(
        _ path: String, _ user: String, _ database: String
    ) -> StoreLocation {
        .server(.init(address: .unixSocket(path: path), user: user, database: database))
    }

    @Test(
        "an address is split into its parts and prints as it can be written again",
        arguments: [
            ("sqlite:///v/t.sqlite", .sqlite(path: "/v/t.sqlite"), "sqlite:///v/t.sqlite"),
            ("sqlite://t%23.db", .sqlite(path: "/f/t#.db"), "sqlite:///f/t%23.db"),
            ("sqlite:///v/a b&c", .sqlite(path: "/v/a b&c"), "sqlite:///v/a b&c"),
            ("mysql://u@h/push", tcp("h", 3306, "u", "push"), "mysql://u@h:3306/push"),
            ("mysql://h:1/p%40q", tcp("h", 1, "pushsweep", "p@q"), "mysql://pushsweep@h:1/p%40q"),
            (
                "mysql://a%40b@[::1]:3307/p", tcp("::1", 3307, "a@b", "p"),
                "mysql://a%40b@[::1]:3307/p"
            ),
            (
                "mysql://a%3ab%2Fc@h/%C3%A9", tcp("h", 3306, "a:b/c", "é"),
                "mysql://a%3Ab%2Fc@h:3306/é"
            ),
            (
                "mysql://u@db1:1,db2,[::1]:3/p",
                .server(
                    .init(
                        addresses: [
                            .tcp(host: "db1", port: 1), .tcp(host: "db2", port: 3306),
                            .tcp(host: "::1", port: 3),
                        ], user: "u", database: "p")), "mysql://u@db1:1,db2:3306,[::1]:3/p"
            ),
            (
                "mysql+unix:///run/m.sock?db=push", socket("/run/m.sock", "pushsweep", "push"),
                "mysql+unix://pushsweep@/run/m.sock?db=push"
            ),
            (
                "mysql+unix://me@/run/m.sock?db=push", socket("/run/m.sock", "me", "push"),
                "mysql+unix://me@/run/m.sock?db=push"
            ),
            (
                "mysql+unix:///run/m.sock?user=me&db=a%26b", socket("/run/m.sock", "me", "a&b"),
                "mysql+unix://me@/run/m.sock?db=a%26b"
            ),
        ] as [(String, StoreLocation, String)])
    func reading(text: String, location: StoreLocation, shown: String) throws {
        #expect(try StoreLocation(text, relativeTo: "/f") == location)
        #expect(location.description == shown)
        #expect(try StoreLocation(shown, relativeTo: "/elsewhere") == location)
    }

    @Test(
        "a text that is not an address is refused without being quoted",
        arguments: [
            "push", "postgres://h/p", "mysql://", "mysql://h", "mysql://h/", "mysql://h/a/b",
            "mysql://h/a%2Fb", "mysql://h:0/p", "mysql://h:65536/p", "mysql://h:/p",
            "mysql://:3306/p", "mysql://h:+1/p", "mysql://@h/p", "mysql://h/p?ssl=0",
            "mysql://h/%zz", "mysql://h/%+f", "mysql://h/%0a", "mysql://h/%ff", "mysql://h/%",
            "mysql://h/p\u{1B}", "mysql://h\n/p", "mysql://[::1/p", "mysql://[::1]x/p",
            "mysql+unix:///run/m.sock", "mysql+unix://run/m.sock?db=p", "mysql+unix:///m.sock?db=",
            "mysql+unix:///m.sock?db", "mysql+unix:///?db=p", "mysql+unix:///m?db=p&x=secret",
            "mysql+unix:///m?db=p&db=q", "mysql+unix://a@/m?db=p&user=b", "mysql+unix:///m?user=b",
            "mysql+unix:///m?db=p&user=", "sqlite://", "sqlite:///v/", "sqlite:///v?mode=secret",
            "sqlite://~/t", "sqlite:///v#secret", "mysql://u:secret#@h/p",
            "mysql://u@h/\(String(repeating: "d", count: 65))", "mysql://u@a,,b/p",
            "mysql://u@,a/p", "mysql://u@a,/p", "mysql://u@a,a:3306/p", "mysql://u@A,a/p",
            "mysql://u@a:1,u@b:2/p", "mysql://u@a/x,b/p", "mysql://u@a:1,b:x/p",
            "mysql://u@\((1...9).map { "h\($0)" }.joined(separator: ","))/p",
            "mysql://\(String(repeating: "u", count: 129))@h/p",
        ])
    func refusing(text: String) {
        let refusal = #expect(throws: Refusal.self) {
            try StoreLocation(text, relativeTo: "/f")
        }
        #expect(refusal?.description.contains("secret") == false)
        #expect(refusal?.description.contains("\n") == false)
    }

    @Test(
        "an address with a password is refused, unquoted, with the setting that takes it",
        arguments: [
            "mysql://u:secret@h/p", "mysql://u:se/cret@h/p", "mysql://u:s@cret@h/p",
            "mysql://u:secret?@h/p", "mysql://h/p?password=secret", "mysql://h/p?Pwd=secret",
            "mysql+unix://u:secret@/m?db=p", "mysql+unix:///m?db=p&password=secret",
        ])
    func password(text: String) {
        let refusal = #expect(throws: Refusal.self) {
            try StoreLocation(text, relativeTo: "/f")
        }
        #expect(
            refusal?.description
                == "must not hold a password; remove it and name its file with store.password-file")
    }

    @Test("an address that lacks a part is answered with an example")
    func examples() {
        for (text, example) in [
            ("push", "mysql://pushsweep@db.example.net:3306/push"),
            ("mysql://h", "mysql://pushsweep@db.example.net:3306/push"),
            ("mysql+unix:///m", "mysql+unix:///run/mysqld/mysqld.sock?db=push"),
            ("sqlite:///v/", "sqlite:///var/lib/pushsweep/tokens.sqlite"),
        ] {
            let refusal = #expect(throws: Refusal.self) {
                try StoreLocation(text, relativeTo: "/f")
            }
            #expect(refusal?.description.contains(example) == true, "\(text)")
        }
    }
}
