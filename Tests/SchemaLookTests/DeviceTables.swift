import TestSupport

// Shapes of tables in which projects keep tokens, each with what makes it odd.

extension DeviceTable {
    static let all: [DeviceTable] = partitions + marks + times + served + misleading

    private static let partitions: [DeviceTable] = [
        DeviceTable(
            description: "a word tells platforms apart, among other tables with hashes",
            mixed: true,
            ddl: [
                "CREATE TABLE personal_access_tokens (id INTEGER PRIMARY KEY, token VARCHAR(64), name VARCHAR(20))",
                "CREATE TABLE mobile_devices (id INTEGER PRIMARY KEY, user_id INTEGER, token VARCHAR(255), "
                    + "device_type VARCHAR(10), updated_at DATETIME)",
            ],
            rows: {
                [
                    (
                        "personal_access_tokens",
                        "\($0.number), '\(Device.hex($0.number + 9_000))', 'api'"
                    ),
                    (
                        "mobile_devices",
                        "\($0.number), \($0.number / 2), '\($0.token)', '\($0.isApple ? "ios" : "android")', '\($0.time)'"
                    ),
                ]
            },
            expected: [
                "token: token", "platform: {column: device_type, value: ios}",
                "registered-at: updated_at",
            ]),
        DeviceTable(
            description: "a number tells platforms apart, and apps have numbers", mixed: true,
            ddl: [
                "CREATE TABLE push_tokens (k INTEGER PRIMARY KEY, push_token VARCHAR(160), kind SMALLINT, "
                    + "app_id INTEGER, last_seen BIGINT)"
            ],
            rows: {
                [
                    (
                        "push_tokens",
                        "\($0.number), '\($0.token)', \($0.isApple ? 1 : 2), \($0.number % 2 + 7), \($0.registered)000"
                    )
                ]
            },
            expected: [
                "token: {column: push_token, longest: 80}", "platform: {column: kind, value: 1}",
                "app: app_id", "registered-at: {column: last_seen, type: epoch-milliseconds}",
            ], engines: [.mariaDB].filter(TestEngine.available.contains)),
        DeviceTable(
            description: "no column tells platforms apart, but a part of longer words does",
            mixed: true,
            ddl: [
                "CREATE TABLE endpoints (id INTEGER PRIMARY KEY, token VARCHAR(255), arn VARCHAR(200), "
                    + "updated_at DATETIME)"
            ],
            rows: {
                [
                    (
                        "endpoints",
                        "\($0.number), '\($0.token)', 'arn:aws:sns:eu:1:endpoint/\($0.isApple ? "APNS" : "GCM")/app/\($0.number)', "
                            + "'\($0.time)'"
                    )
                ]
            },
            expected: ["token: token", "registered-at: updated_at"], asked: ["platform"]),
        DeviceTable(
            description: "two words stand for Apple", mixed: true,
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), service VARCHAR(20))"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', '\($0.isApple ? ($0.number % 4 == 1 ? "APNS" : "APNS_DIRECT") : "FCM")'"
                    )
                ]
            },
            expected: ["token: device_token", "platform: {column: service, value: APNS_DIRECT}"],
            asked: ["platform", "registered-at"]),
        DeviceTable(
            description: "a flag is the environment, bytes are the token",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, token VARBINARY(100), sandbox SMALLINT, "
                    + "lastupdate DATETIME)"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), x'\($0.token)', \($0.number % 5 == 0 ? 1 : 0), '\($0.time)'"
                    )
                ]
            },
            expected: [
                "token: {column: token, encoding: binary}",
                "environment: {column: sandbox, values: {production: 0, sandbox: 1}}",
                "registered-at: lastupdate",
            ]),
        DeviceTable(
            description: "a column with the usual name of the environment means something else",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), environment VARCHAR(20), "
                    + "mode CHAR(1))"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', 'Mobile', '\($0.number % 5 == 0 ? "D" : "P")'"
                    )
                ]
            },
            expected: [
                "token: device_token",
                "environment: {column: mode, values: {production: P, sandbox: D}}",
            ], asked: ["registered-at"]),
    ]

    private static let marks: [DeviceTable] = [
        DeviceTable(
            description: "a reversed flag is the mark",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), is_deleted SMALLINT, "
                    + "created_at DATETIME, updated_at DATETIME)"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', \($0.isGone ? 1 : 0), '\(Device.time($0.registered - 86_400))', '\($0.time)'"
                    )
                ]
            },
            expected: [
                "token: device_token", "registered-at: updated_at",
            ], asked: ["living"], marks: ["living: {column: is_deleted, living: 0, dead: 1}"]),
        DeviceTable(
            description: "words are the mark, with a third one",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), status VARCHAR(20))"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', '\($0.isGone ? ($0.number % 40 == 7 ? "EXPIRED" : "INACTIVE") : "ACTIVE")'"
                    )
                ]
            },
            expected: ["token: device_token"], asked: ["living", "registered-at"],
            marks: [
                "living: {column: status, living: ACTIVE, dead: INACTIVE, others: [EXPIRED]}"
            ]),
        DeviceTable(
            description: "a time is the mark",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), last_seen_at DATETIME, "
                    + "disabled_at DATETIME)"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', '\($0.time)', "
                            + ($0.isGone ? "'\(Device.time($0.registered + 86_400))'" : "NULL")
                    )
                ]
            },
            expected: ["token: device_token", "registered-at: last_seen_at"],
            asked: ["invalidated-at"], marks: ["invalidated-at: disabled_at"]),
        DeviceTable(
            description: "the state of a person is asked about",
            ddl: [
                "CREATE TABLE users (id INTEGER PRIMARY KEY, email VARCHAR(60), password VARCHAR(60), status INTEGER, "
                    + "ios_token VARCHAR(255))"
            ],
            rows: {
                [("users", "\($0.number), 'u\($0.number)@example.com', 'x', 1, '\($0.token)'")]
            },
            expected: ["token: ios_token", "user: {column: id}"],
            asked: ["living", "registered-at"],
            marks: ["living: {column: status, living: 1, dead: 0}"]),
        DeviceTable(
            description: "a choice of the person is asked about",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), push_enabled SMALLINT)"
            ],
            rows: { [("devices", "\($0.number), '\($0.token)', \($0.isGone ? 0 : 1)")] },
            expected: ["token: device_token"], asked: ["living", "registered-at"],
            marks: ["living: {column: push_enabled, living: 1, dead: 0}"]),
    ]

    private static let times: [DeviceTable] = [
        DeviceTable(
            description: "times in the future are no registrations",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, apns_token VARCHAR(255), valid_until DATETIME)"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', '\(Device.time($0.registered + 31_536_000))'"
                    )
                ]
            },
            expected: ["token: apns_token"], asked: ["registered-at"]),
        DeviceTable(
            description: "a time that the device moves is later than that with the better name",
            ddl: [
                "CREATE TABLE devices (device_token VARCHAR(191) PRIMARY KEY, registered_at DATETIME, last_active DATETIME)"
            ],
            rows: {
                [
                    (
                        "devices",
                        "'\($0.token)', '\(Device.time($0.registered - 86_400))', '\($0.time)'"
                    )
                ]
            },
            expected: [
                "token: {column: device_token, longest: 95}", "registered-at: last_active",
            ], asked: ["registered-at"], engines: [.mariaDB].filter(TestEngine.available.contains)),
        DeviceTable(
            description: "a time with a name that says nothing is asked about",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), moment DATETIME)"
            ],
            rows: { [("devices", "\($0.number), '\($0.token)', '\($0.time)'")] },
            expected: ["token: device_token"], asked: ["registered-at"]),
    ]

    private static let served: [DeviceTable] = [
        DeviceTable(
            description: "tokens and platforms are in JSON documents", mixed: true,
            ddl: [
                "CREATE TABLE subscriptions (id INTEGER PRIMARY KEY, form TEXT, created_at BIGINT)"
            ],
            rows: {
                [
                    (
                        "subscriptions",
                        "\($0.number), '{\"service\": \"\($0.isApple ? "apns" : "fcm")\", \"device_id\": \"\($0.token)\"}', "
                            + "\($0.registered)000000"
                    )
                ]
            },
            expected: [
                "token: form_hex", "platform: {column: form_service, value: apns}",
                "registered-at: {column: created_at_epoch, type: epoch-milliseconds}",
            ], statements: ["ALTER TABLE", "ALTER TABLE", "ALTER TABLE"]),
        DeviceTable(
            description: "tokens are at the end of addresses",
            ddl: ["CREATE TABLE devices (id INTEGER PRIMARY KEY, callback VARCHAR(255))"],
            rows: { [("devices", "\($0.number), 'https://push.example.com/v2/\($0.token)'")] },
            expected: ["token: callback_hex"], asked: ["registered-at"], statements: ["ALTER TABLE"]
        ),
        DeviceTable(
            description: "tokens are in groups",
            ddl: ["CREATE TABLE devices (id INTEGER PRIMARY KEY, token VARCHAR(255))"],
            rows: { device in
                let digits = Array(device.token)
                let groups = stride(from: 0, to: 64, by: 8).map { String(digits[$0..<($0 + 8)]) }
                return [("devices", "\(device.number), '<\(groups.joined(separator: " "))>'")]
            },
            expected: ["token: token_hex"], asked: ["registered-at"], statements: ["ALTER TABLE"]),
        DeviceTable(
            description: "tokens stand after a word",
            ddl: ["CREATE TABLE devices (id INTEGER PRIMARY KEY, token VARCHAR(255))"],
            rows: { [("devices", "\($0.number), 'apns:\($0.token)'")] },
            expected: ["token: token_hex"], asked: ["registered-at"], statements: ["ALTER TABLE"]),
    ]

    /// Names and values that look like something else.
    private static let misleading: [DeviceTable] = [
        DeviceTable(
            description: "flags of a device are no mark",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), location_enabled SMALLINT, "
                    + "keep_alive SMALLINT, is_device_rooted SMALLINT, can_delete SMALLINT, subscription_expired SMALLINT)"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', \($0.number % 4 == 0 ? 0 : 1), \($0.number % 3 == 0 ? 0 : 1), 0, 1, 0"
                    )
                ]
            },
            expected: ["token: device_token"], asked: ["registered-at"]),
        DeviceTable(
            description: "the token before this one, and the time of a product",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, previous_device_token VARCHAR(255), "
                    + "device_token VARCHAR(255), premium_expired_at DATETIME, disconnected_at DATETIME)"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\(Device.hex(-$0.number - 1))', '\($0.token)', "
                            + ($0.number % 4 == 0
                                ? "'\(Device.time($0.registered + 31_536_000))'" : "NULL")
                            + ", '\($0.time)'"
                    )
                ]
            },
            expected: ["token: device_token"], asked: ["registered-at"]),
        DeviceTable(
            description: "a status of three numbers is asked about",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), status INTEGER)"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', \($0.number % 5 == 0 ? $0.number % 3 : 1)"
                    )
                ]
            },
            expected: ["token: device_token"], asked: ["living", "registered-at"]),
        DeviceTable(
            description: "who logs in is a person, whatever the table is called",
            ddl: [
                "CREATE TABLE wp_users (id INTEGER PRIMARY KEY, user_login VARCHAR(60), user_pass VARCHAR(60), "
                    + "push_token VARCHAR(255), deleted SMALLINT, user_registered DATETIME)"
            ],
            rows: {
                [
                    (
                        "wp_users",
                        "\($0.number), 'u\($0.number)', 'x', '\($0.token)', \($0.isGone ? 1 : 0), '\($0.time)'"
                    )
                ]
            },
            expected: ["token: push_token", "user: {column: id}"],
            asked: ["living", "registered-at"],
            marks: ["living: {column: deleted, living: 0, dead: 1}"]),
        DeviceTable(
            description:
                "a registration of nobody is a question beside a later time of the row, with a wrong clock in one",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), registered_at DATETIME, "
                    + "updated_at DATETIME)"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', '\(Device.time($0.registered - 40_000_000))', "
                            + "'\($0.number == 5 ? "2038-01-01 00:00:00" : $0.time)'"
                    )
                ]
            },
            expected: ["token: device_token", "registered-at: updated_at"],
            asked: ["registered-at"]),
        DeviceTable(
            description: "an environment in other words is asked about, and a key is no app",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), environment VARCHAR(20), "
                    + "apns_key VARCHAR(200), host VARCHAR(40))"
            ],
            rows: {
                [
                    (
                        "devices",
                        "\($0.number), '\($0.token)', '\($0.number % 9 == 0 ? "Entwicklung" : "Produktion")', "
                            + "'-----BEGIN PRIVATE KEY-----\($0.number % 2)', '\($0.number % 2 == 0 ? "xmpp" : "chat").example.org'"
                    )
                ]
            },
            expected: ["token: device_token"], asked: ["environment", "app", "registered-at"]),
        DeviceTable(
            description: "tokens in an older form, and words for none, are not of another platform",
            ddl: [
                "CREATE TABLE devices (id INTEGER PRIMARY KEY, device_token VARCHAR(255), app_version VARCHAR(10))"
            ],
            rows: { device in
                let old = "<\(device.token.prefix(32)) \(device.token.suffix(32))>"
                let token =
                    device.number % 4 == 0
                    ? old : device.number % 4 == 1 ? "undefined" : device.token
                return [
                    (
                        "devices",
                        "\(device.number), '\(token)', '\(device.number % 4 == 0 ? "1" : "2")'"
                    )
                ]
            },
            expected: ["token: device_token"], asked: ["registered-at"], refusal: "hex in groups"),
    ]
}
