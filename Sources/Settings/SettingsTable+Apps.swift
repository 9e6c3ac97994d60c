// The rows of one app. A group that is left out does not exist. Its defaults apply as soon as one
// of its keys is given.

extension SettingsTable {
    static var apps: [SettingRule] { identity + gateways }

    private static let app = SettingPlace<Settings.App>("apps[].") {
        settings, index, change in change(&settings.apps[index])
    }
    private static let certificate = group("certificate", \.certificate, Settings.Certificate())
    private static let tokenKey = group("token-key", \.tokenKey, Settings.TokenKey())
    private static let feedback = group("feedback", \.feedback, Settings.Feedback())
    private static let provider = group("provider", \.provider, Settings.Provider())
    private static let binary = group("binary", \.binary, Settings.Binary())

    @SettingRows private static var identity: [SettingRule] {
        app(
            "name", .shortName, .required, \.name, written: "chat",
            "Name of the app in commands, reports and environment variables.")
        app(
            "topic", .name, .required, \.topic, written: "com.example.chat",
            "Topic of the app's notifications: the bundle identifier.")
        app(
            "environment", .choice, .required, \.environment, written: "production",
            "Environment of the app's tokens: production or sandbox.")
        app(
            "value", .shortText, .computed("the app's name") { $0.neighbour("name") }, \.value,
            example: "chat", "Value of the token table's app column for this app.")
        certificate(
            "file", .path, .required, \.file, written: "chat.pem",
            "Client certificate, PEM or PKCS#12.")
        certificate(
            "key", .path, .absent("in the certificate's file"), \.key, written: "chat.key",
            "Private key of the certificate in PEM; only its owner may read it.")
        certificate(
            "passphrase-file", .path, .absent("no passphrase"), \.passphraseFile,
            example: "chat-passphrase",
            "File whose only line is the passphrase of the key; only its owner may read it.")
        tokenKey(
            "file", .path, .required, \.file, example: "AuthKey_ABC123DEFG.p8",
            "Signing key for provider tokens: the .p8 file from Apple.")
        tokenKey(
            "key-id", .appleIdentifier, .required, \.keyIdentifier, example: "ABC123DEFG",
            "Identifier of that key.")
        tokenKey(
            "team-id", .appleIdentifier, .required, \.teamIdentifier, example: "DEF123GHIJ",
            "Identifier of the team that owns the key.")
    }

    @SettingRows private static var gateways: [SettingRule] {
        feedback(
            "host", .host, .required, \.host, written: "feedback.example.net",
            "Feedback gateway; without this group the app has no list.")
        feedback("port", .port, "2196", \.port, "Port of the gateway.")
        feedback(
            "ca", .path, .systemAuthorities, \.ca, written: "gateway-ca.pem",
            "PEM file of the authorities that may sign the gateway's certificate.")
        feedback(
            "host-name", .host, .computed("the host") { $0.neighbour("host") }, \.hostName,
            example: "feedback.example.net", "Host name that the gateway's certificate must have.")
        feedback(
            "connect-timeout", .duration(waiting), "10s", \.connectTimeout,
            "Longest wait for a connection.")
        feedback(
            "handshake-timeout", .duration(waiting), "10s", \.handshakeTimeout,
            "Longest wait for the TLS handshake.")
        feedback(
            "idle-timeout", .duration(waiting), "30s", \.idleTimeout,
            "Silence after which the list counts as ended. One that goes on is left after twice that time and a "
                + "millisecond for each byte; what came is kept.")
        feedback(
            "max-bytes", .size(65_536...(1 << 40)), "1GiB", \.maxBytes,
            "Bytes after which a list is cut and held.")
        provider(
            "host", .host, .required, \.host, example: "api.push.apple.com",
            "HTTP/2 gateway to send through; needs a certificate or a token key.")
        provider("port", .port, "443", \.port, "Port of the gateway.")
        provider(
            "ca", .path, .systemAuthorities, \.ca, example: "gateway-ca.pem",
            "PEM file of the authorities of a private gateway.")
        provider("connections", .integer(1...64), "2", \.connections, "Connections to keep open.")
        binary(
            "host", .host, .required, \.host, example: "gateway.example.net",
            "Private gateway of the binary interface to send through, in place of provider; needs a "
                + "certificate.")
        binary("port", .port, "2195", \.port, "Port of the gateway.")
        binary(
            "ca", .path, .systemAuthorities, \.ca, example: "gateway-ca.pem",
            "PEM file of the authorities that may sign the gateway's certificate.")
        binary(
            "host-name", .host, .computed("the host") { $0.neighbour("host") }, \.hostName,
            example: "gateway.example.net", "Host name that the gateway's certificate must have.")
        binary(
            "command", .integer(0...2), "2", \.command,
            "Command of the frames: 2, or 1 or 0 for a gateway that knows no newer one.")
        binary(
            "error-wait", .duration(100...60_000), "2s", \.errorWait,
            "Silence after a notification was received by which it counts as sent.")
    }

    private static func group<Group: Sendable>(
        _ name: String, _ path: any WritableKeyPath<Settings.App, Group?> & Sendable, _ empty: Group
    ) -> SettingPlace<Group> {
        SettingPlace("apps[].\(name).", optionalGroup: name) { settings, index, change in
            var group = settings.apps[index][keyPath: path] ?? empty
            change(&group)
            settings.apps[index][keyPath: path] = group
        }
    }
}
