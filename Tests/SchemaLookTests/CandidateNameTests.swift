import Foundation
import TestSupport
import Testing

@testable import Database
@testable import SchemaLook
@testable import TokenTable

// What the name of a table or column alone says against it. The values are those of devices in each case.

@Suite("Names of tables and columns with tokens")
struct CandidateNameTests {
    /// The look at one table under several names, each with what it says against the only column; nil where
    /// it takes the table.
    private static func doubts(
        _ engine: TestEngine, _ tables: [String], _ columns: String = "device_token VARCHAR(200)",
        _ values: (Device) -> String = { "'\($0.token)'" }
    ) throws -> [String: String?] {
        let database = try TokenDatabase(engine)
        try database.make("first_name", "id INTEGER PRIMARY KEY, \(columns)", 12) {
            "\($0.number), \(values($0))"
        }
        var name = "first_name"
        var found: [String: String?] = [:]
        for table in tables {
            // Names that differ in case are one.
            try database.execute("ALTER TABLE \(name) RENAME TO renaming")
            try database.execute("ALTER TABLE renaming RENAME TO \(table)")
            name = table
            found[table] = .some(try doubt(database))
        }
        return found
    }

    /// The same for columns of a table of devices.
    private static func doubts(
        _ engine: TestEngine, columns: [String], _ type: String = "VARCHAR(200)",
        _ value: (Device) -> String = { "'\($0.token)'" }
    ) throws -> [String: String?] {
        let database = try TokenDatabase(engine)
        try database.make("devices", "id INTEGER PRIMARY KEY, first_name \(type)", 12) {
            "\($0.number), \(value($0))"
        }
        var name = "first_name"
        var found: [String: String?] = [:]
        for column in columns {
            try database.execute("ALTER TABLE devices RENAME COLUMN \(name) TO \(column)")
            name = column
            found[column] = .some(try doubt(database))
        }
        return found
    }

    private static func doubt(_ database: TokenDatabase) throws -> String? {
        let (look, proposal) = try database.firstLook()
        return proposal == nil ? look.found.first?.doubts.joined(separator: "; ") ?? "" : nil
    }

    @Test(
        "a log, a queue, a list of dead devices and a copy are a question by their name, though they are alone",
        arguments: TestEngine.available)
    func sendings(_ engine: TestEngine) throws {
        let names = """
            push_log pushlog PushLogs push_history pushhistory sent_pushes notification_logs push_audit \
            device_events crash_reports dead_tokens deadtokens apns_feedback invalid_device_tokens \
            unregistered_devices outbox pushoutbox deliveries history apns_queue push_queue_items \
            log_device_tokens apns_delivery_ledger push_deliveries push_delivery_attempts failed_pushes \
            bounced_tokens push_errors expired_tokens stale_device_tokens removed_devices \
            inactive_devices disabled_devices uninstalled_apps device_aud scheduled_pushes \
            push_jobs blacklisted_tokens device_removals revoked_devices push_receipts \
            device_log_2024 push_event_data notifications push_messages deleted_users \
            devices_prev devicesbackup DevicesBackup devices_backup_v2 device_archive archived_devices \
            old_devices olddevices devices_bak devices_copy devices_tmp tmp_devices devices_staging \
            devices_import import_devices devices_gho historicaldevice devices_2024 devices_obsolete \
            devices_snapshot test_devices push_optouts push_suppressions ignored_devices push_outgoing
            """.split(separator: " ").map(String.init)
        for (name, doubt) in try Self.doubts(engine, names) {
            let said = try #require(doubt, "\(name) is taken")
            #expect(said.contains("the name of its table is that of"), "\(name): \(said)")
        }
    }

    @Test("the table in which devices register stays sure", arguments: TestEngine.available)
    func devices(_ engine: TestEngine) throws {
        let names = """
            devices push_tokens device_registrations push_subscriptions active_users user_devices PushDevice \
            pushdevices apns_devices apns_subscription mobile_devices notification_endpoints installs \
            push_notifications_tokens event_pusher_push_subscription mdl_message_airnotifier_devices \
            apiclient_devicetoken installations handsets app_users wallet_passes user_sessions \
            webservice delivery_driver_devices message_devices event_devices blog_devices golden_devices \
            logistics_devices threshold_devices temperature_devices oldtimer_devices catalog_devices \
            push_notifications_apnsdevice notifiable_device_tokens endpoints live_devices
            """.split(separator: " ").map(String.init)
        for (name, doubt) in try Self.doubts(engine, names) {
            #expect(doubt == nil, "\(name): \(doubt ?? "")")
        }
    }

    @Test(
        "a log never beats another table with tokens, however little that one's name says",
        arguments: TestEngine.inTurn([
            ("installs", "ios"), ("app_users", "apns"), ("personen", "ios_push"),
        ]))
    func beside(_ engine: TestEngine, _ place: (table: String, column: String)) throws {
        let database = try TokenDatabase(engine)
        try database.make(
            place.table, "id INTEGER PRIMARY KEY, \(place.column) VARCHAR(200), created_at DATETIME"
        ) { "\($0.number), '\($0.token)', '\($0.time)'" }
        for log in ["push_log", "unregistered_devices", "device_tokens_backup"] {
            try database.make(
                log, "id INTEGER PRIMARY KEY, device_token VARCHAR(200), created_at DATETIME"
            ) { "\($0.number), '\(Device.hex($0.number * 5 / 7))', '\($0.time)'" }
        }
        let (look, proposal) = try database.firstLook()
        #expect(proposal?.mapping.table == place.table, "\(look.found)")
    }

    @Test(
        "a plain token of a table that speaks of no device is a question, unless its rows speak of Apple",
        arguments: TestEngine.available)
    func plainTokens(_ engine: TestEngine) throws {
        let others = """
            email_verifications contracts users orders tokens user_tokens subscriptions invites \
            newsletter_signups documents event_registrations verification_tokens email_tokens bookings \
            device_access_tokens mobile_refresh_tokens device_verification_tokens device_login_tokens \
            device_sessions mobile_sessions notification_unsubscribe_tokens push_confirmation_tokens \
            user_device_auth_tokens trusted_devices
            """.split(separator: " ").map(String.init)
        for (name, doubt) in try Self.doubts(engine, others, "token VARCHAR(200)") {
            let said = try #require(doubt, "\(name).token is taken")
            #expect(said.contains("its table"), "\(name): \(said)")
        }
        // Devices that need no second factor have tokens of cookies.
        let trusted = try Self.doubts(engine, ["trusted_devices", "remembered_devices"])
        #expect(trusted.values.allSatisfy { $0 != nil }, "\(trusted)")
        let ofOthers = try Self.doubts(
            engine, ["mobile_api_tokens", "mobile_payment_cards"], "token VARCHAR(200)")
        #expect(ofOthers.values.allSatisfy { $0 != nil }, "\(ofOthers)")
        // A better name stands beside it.
        for value in ["NULL", "'fcm:APA91b'"] {
            let beside = try Self.doubts(
                engine, ["devices"], "token VARCHAR(200), push_token VARCHAR(200)"
            ) { "'\($0.token)', \(value)" }
            #expect(beside.values.allSatisfy { $0?.contains("push_token") == true }, "\(beside)")
        }
        for name in ["mobile_token", "ios_token", "push_token", "notification_token"] {
            let found = try Self.doubts(engine, ["users", "contracts"], "\(name) VARCHAR(200)")
            #expect(found.values.allSatisfy { $0 == nil }, "\(name): \(found)")
        }
        let devices = try Self.doubts(
            engine, ["devices", "phones", "installations", "active_users"], "token VARCHAR(200)")
        #expect(devices.values.allSatisfy { $0 == nil }, "\(devices)")
        let spoken = try Self.doubts(
            engine, ["user_tokens", "endpoints"], "token VARCHAR(200), platform VARCHAR(9)"
        ) { "'\($0.token)', 'ios'" }
        #expect(spoken.values.allSatisfy { $0 == nil }, "\(spoken)")
    }

    /// The forms in which 32 bytes stand in a column.
    private static let forms: [(type: String, value: @Sendable (Device) -> String)] = [
        ("VARCHAR(200)", { "'\($0.token)'" }),
        ("VARCHAR(200)", { "'\(base64($0))'" }),
        ("BLOB", { "x'\($0.token)'" }),
    ]

    private static func base64(_ device: Device) -> String {
        let digits = Array(device.token)
        let bytes = stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(digits[$0...$0 + 1]), radix: 16)
        }
        return Data(bytes).base64EncodedString()
    }

    @Test(
        "a column whose name is that of a hash or a cipher of the token is a question in each form",
        arguments: TestEngine.available)
    func hashes(_ engine: TestEngine) throws {
        let names = """
            token_bidx crypted_token token_blind_index sealed_push_token push_token_md push_token_h \
            token_enc token_sha token_digest token_hmac tokendigest pushtokenenc push_token_mac \
            token_lookup token_ct encrypted_push_token secure_token blinded_device_token token_kms \
            device_token_crc token_search deviceTokenHashed tokens_sealed push_bidx
            """.split(separator: " ").map(String.init)
        for form in Self.forms {
            for (name, doubt) in try Self.doubts(engine, columns: names, form.type, form.value) {
                #expect(doubt != nil, "\(name) \(form.type) is taken")
            }
        }
    }

    @Test(
        "a column of devices whose name says nothing of a token is a question, unless others' tokens stand in it",
        arguments: TestEngine.available)
    func otherKeys(_ engine: TestEngine) throws {
        let names = """
            psk pubkey hw_key ident serial_no identifier_for_vendor content device_id lookup
            """.split(separator: " ").map(String.init)
        for (name, doubt) in try Self.doubts(engine, columns: names) {
            #expect(doubt != nil, "\(name) is taken")
        }
        let mixed = try Self.doubts(engine, columns: ["device_id"]) {
            $0.number % 3 == 0
                ? "'dGx\($0.number):APA91b\(String(repeating: "aZ-_9", count: 26))'"
                : "'\($0.token)'"
        }
        #expect(mixed.count == 1 && mixed.values.allSatisfy { $0 == nil }, "\(mixed)")
    }

    @Test("a column whose name says only token stays sure", arguments: TestEngine.available)
    func tokens(_ engine: TestEngine) throws {
        let names = """
            device_token push_token token_hex token_ios tokenvalue push_token_1 token_v2 token2 \
            token_notificacion device_token_string apns_token_prod tokens deviceTokens token_id \
            push_token_data client_token
            """.split(separator: " ").map(String.init)
        for (name, doubt) in try Self.doubts(engine, columns: names) {
            #expect(doubt == nil, "\(name): \(doubt ?? "")")
        }
    }

    @Test(
        "what stands beside a cipher may be its hash, whatever its form is",
        arguments: TestEngine.inTurn(["token_ciphertext", "push_token_crypt", "sealed_token"]))
    func cipher(_ engine: TestEngine, _ name: String) throws {
        for form in Self.forms {
            let database = try TokenDatabase(engine)
            try database.make(
                "devices",
                "id INTEGER PRIMARY KEY, \(name) VARCHAR(200), suche \(form.type)", 12
            ) { device in
                let bytes = Data(
                    (0..<60).map { UInt8(truncatingIfNeeded: device.number * 7 + $0 * 31) })
                return "\(device.number), '\(bytes.base64EncodedString())', \(form.value(device))"
            }
            let (look, proposal) = try database.firstLook()
            #expect(proposal == nil)
            let said = look.found.first { $0.column == "suche" }?.doubts ?? []
            #expect(
                said.contains { $0.contains("\(name) stands beside it") }, "\(form.type): \(said)")
        }
    }
}
