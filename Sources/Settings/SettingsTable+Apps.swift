// The rows of one app. A group that is left out does not exist. Its defaults apply as soon as one
// of its keys is given.

extension SettingsTable {
    static var apps: [SettingRule] { identity + gateways }

    private static let app = SettingPlace<Settings.App> { settings, index, change in
        change(&settings.apps[index])
    }
    private static let certificate = group("certificate", \.certificate, Settings.Certificate())
    private static let tokenKey = group("token-key", \.tokenKey, Settings.TokenKey())
    private static let feedback = group("feedback", \.feedback, Settings.Feedback())
    private static let provider = group("provider", \.provider, Settings.Provider())
    private static let binary = group("binary", \.binary, Settings.Binary())

    @SettingRows private static var identity: [SettingRule] {
        app(
            "apps[].name", .shortName, .required, \.name, sample: .written("chat"),
            "Name of the app in commands, reports and environment variables.")
        app(
            "apps[].topic", .name, .required, \.topic, sample: .written("com.example.chat"),
            "Topic of the app's notifications: the bundle identifier.")
        app(
            "apps[].environment", .choice, .required, \.environment, sample: .written("production"),
            "Environment of the app's tokens: production or sandbox.")
        app(
            "apps[].value", .shortText, .computed("the app's name") { $0.neighbour("name") },
            \.value, sample: .comment("chat"),
            "Value of the token table's app column for this app.")
        certificate(
            "apps[].certificate.file", .path, .required, \.file, sample: .written("chat.pem"),
            "Client certificate, PEM or PKCS#12.")
        certificate(
            "apps[].certificate.key", .path, .absent("in the certificate's file"), \.key,
            sample: .written("chat.key"),
            "Private key of the certificate in PEM; only its owner may read it.")
        certificate(
            "apps[].certificate.passphrase-file", .path, .absent("no passphrase"), \.passphraseFile,
            sample: .comment("chat-passphrase"),
            "File whose only line is the passphrase of the key; only its owner may read it.")
        tokenKey(
            "apps[].token-key.file", .path, .required, \.file,
            sample: .comment("AuthKey_ABC123DEFG.p8"),
            "Signing key for provider tokens: the .p8 file from Apple.")
        tokenKey(
            "apps[].token-key.key-id", .appleIdentifier, .required, \.keyIdentifier,
            sample: .comment("ABC123DEFG"),
            "Identifier of that key.")
        tokenKey(
            "apps[].token-key.team-id", .appleIdentifier, .required, \.teamIdentifier,
            sample: .comment("DEF123GHIJ"),
            "Identifier of the team that owns the key.")
    }

    @SettingRows private static var gateways: [SettingRule] {
        feedback(
            "apps[].feedback.host", .host, .required, \.host,
            sample: .written("feedback.example.net"),
            "Feedback gateway; without this group the app has no feed.")
        feedback(
            "apps[].feedback.port", .integer(1...65_535), .text("2196"), \.port,
            "Port of the gateway.")
        feedback(
            "apps[].feedback.ca", .path, .systemAuthorities, \.ca,
            sample: .written("gateway-ca.pem"),
            "PEM file of the authorities that may sign the gateway's certificate.")
        feedback(
            "apps[].feedback.host-name", .host, .computed("the host") { $0.neighbour("host") },
            \.hostName, sample: .comment("feedback.example.net"),
            "Host name that the gateway's certificate must have.")
        feedback(
            "apps[].feedback.connect-timeout", .duration(waiting), .text("10s"), \.connectTimeout,
            "Longest wait for a connection.")
        feedback(
            "apps[].feedback.handshake-timeout", .duration(waiting), .text("10s"),
            \.handshakeTimeout,
            "Longest wait for the TLS handshake.")
        feedback(
            "apps[].feedback.idle-timeout", .duration(waiting), .text("30s"), \.idleTimeout,
            "Silence after which the list counts as ended.")
        feedback(
            "apps[].feedback.max-bytes", .size(65_536...(1 << 40)), .text("1GiB"), \.maxBytes,
            "Bytes after which a feed is cut and held.")
        provider(
            "apps[].provider.host", .host, .required, \.host,
            sample: .comment("api.push.apple.com"),
            "HTTP/2 gateway to send through; needs a certificate or a token key.")
        provider(
            "apps[].provider.port", .integer(1...65_535), .text("443"), \.port,
            "Port of the gateway.")
        provider(
            "apps[].provider.ca", .path, .systemAuthorities, \.ca,
            sample: .comment("gateway-ca.pem"),
            "PEM file of the authorities of a private gateway.")
        provider(
            "apps[].provider.connections", .integer(1...64), .text("2"), \.connections,
            "Connections to keep open.")
        binary(
            "apps[].binary.host", .host, .required, \.host,
            sample: .comment("gateway.example.net"),
            "Private gateway of the binary interface to send through, in place of provider; needs a "
                + "certificate.")
        binary(
            "apps[].binary.port", .integer(1...65_535), .text("2195"), \.port,
            "Port of the gateway.")
        binary(
            "apps[].binary.ca", .path, .systemAuthorities, \.ca,
            sample: .comment("gateway-ca.pem"),
            "PEM file of the authorities that may sign the gateway's certificate.")
        binary(
            "apps[].binary.host-name", .host, .computed("the host") { $0.neighbour("host") },
            \.hostName, sample: .comment("gateway.example.net"),
            "Host name that the gateway's certificate must have.")
        binary(
            "apps[].binary.command", .integer(0...2), .text("2"), \.command,
            "Command of the frames: 2, or 1 or 0 for a gateway that knows no newer one.")
        binary(
            "apps[].binary.error-wait", .duration(100...60_000), .text("2s"), \.errorWait,
            "Silence after a notification was received by which it counts as sent.")
    }

    private static func group<Group: Sendable>(
        _ name: String, _ path: any WritableKeyPath<Settings.App, Group?> & Sendable, _ empty: Group
    ) -> SettingPlace<Group> {
        SettingPlace(optionalGroup: name) { settings, index, change in
            var group = settings.apps[index][keyPath: path] ?? empty
            change(&group)
            settings.apps[index][keyPath: path] = group
        }
    }
}
