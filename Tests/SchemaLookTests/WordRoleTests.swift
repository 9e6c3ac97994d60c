import Testing

@testable import SchemaLook
@testable import TokenTable

@Suite("What the name of a column or a table says")
struct WordRoleTests {
    @Test(
        "the name of a column is that of push tokens, of tokens, of devices, or of something else",
        arguments: [
            ("push_token", 6), ("apnsToken", 6), ("pushkey", 6), ("notification_token", 6),
            ("token", 4), ("registration_id", 4), ("pushid", 4), ("regid", 4), ("endpoint", 2),
            ("callback_url", 2), ("apns_key", 2), ("push", 2), ("device", 1), ("device_id", 1),
            ("devices", 1), ("note", 0), ("password_hash", -6), ("session_token", -2),
            ("old_push_token", 2), ("fcm_token", 2), ("voip_token", 2), ("android_push_token", 4),
            ("sandbox_token", 0),
        ])
    func tokens(name: String, score: Double) {
        #expect(ColumnWords(name).tokenScore == score)
    }

    @Test(
        "a name may be that of tokens by a word of push, of tokens or of Apple",
        arguments: [
            ("endpoint", true), ("encrypted_token", true), ("ios", true), ("iphone", true),
            ("notifications", true), ("device", false), ("note", false),
        ])
    func mayBeTokens(name: String, may: Bool) {
        #expect(ColumnWords(name).mayNameTokens == may)
    }

    @Test(
        "what follows token in a name says whether it is more than a token",
        arguments: [
            ("token", nil), ("token_hex", nil), ("token2", nil), ("token_v2", nil),
            ("token_ios", nil),
            ("tokens", nil), ("note", nil), ("token_hash", "hash"), ("token_sum_x", "sum"),
            ("token_hex_sum", "sum"), ("token_v2x", "v2x"), ("token_token_sum", "sum"),
        ] as [(String, String?)])
    func tails(name: String, tail: String?) {
        #expect(ColumnWords(name).tokenTail == tail)
    }

    @Test(
        "a column tells of a sending surely, perhaps, or not at all",
        arguments: [
            ("sent_at", 2), ("payload", 2), ("apns_id", 2), ("status", 1), ("error_code", 1),
            ("id", 0), ("apns", 0), ("last_sent", 0), ("email_sent", 0),
            ("password_reset_status", 0),
        ])
    func sendings(name: String, score: Int) {
        #expect(ColumnWords(name).sendingScore == score)
    }

    @Test(
        "a name of a person is that of the user, unless it says what kind of person",
        arguments: [
            ("user_id", true, false), ("customer", true, false), ("username", true, true),
            ("user_type", false, true), ("user_agent", false, true), ("device_id", false, true),
            ("id", false, false), ("token", false, true),
        ])
    func users(name: String, names: Bool, namesNone: Bool) {
        #expect(ColumnWords(name).namesUser == names)
        #expect(ColumnWords(name).namesNoUser == namesNone)
    }

    @Test(
        "a column names the app, may tell apps apart, or tells none",
        arguments: [
            ("app_id", true, true, false), ("bundle", true, true, false),
            ("ios_app", true, true, true),
            ("topic", false, true, false), ("brand", false, true, false),
            ("client_version", false, false, true), ("brand_name", false, false, false),
            ("language", false, false, true), ("platform", false, false, true),
            ("is_active", false, false, true), ("note", false, false, false),
        ])
    func apps(name: String, names: Bool, mayTell: Bool, tellsNone: Bool) {
        let words = ColumnWords(name)
        #expect(words.namesApp == names)
        #expect(words.mayTellApps == mayTell)
        #expect(words.tellsNoApp == tellsNone)
    }

    @Test(
        "a name of a time is that of a registration from 3 on, and no time of one where it has no rank",
        arguments: [
            ("token_updated_at", 6), ("token_time", 6), ("device_token_saved_at", 6),
            ("registered_at", 5), ("reg_date", 3), ("registration_time", 5), ("last_seen", 4),
            ("last_active_at", 4), ("last_visit", 3.5), ("synced_at", 3.5), ("updated_at", 3),
            ("mtime", 3), ("timestamp", 2), ("date", 2), ("ts", 2), ("note", 1),
            ("member_since", 1),
            ("profile_updated_at", 1), ("refresh_token_updated_at", 1), ("token_created_at", 0.75),
            ("created_at", 0.5), ("registration_expires", nil), ("sent_at", nil),
            ("expires_at", nil),
        ] as [(String, Double?)])
    func registrations(name: String, score: Double?) {
        #expect(ColumnWords(name).registrationScore == score)
        #expect(ColumnWords(name).moves == ((score ?? 0) >= 3))
        #expect(ColumnWords(name).isOfDeviceTime == ((score ?? 0) >= 3.5))
    }

    @Test(
        "only a name of a registration or a visit may be that of the first one",
        arguments: [
            ("registered_at", true), ("seen", true), ("visit", true), ("last_seen", false),
            ("reregistered_at", false), ("token_registered_at", false), ("updated_at", false),
            ("installation_registered", false), ("heartbeat", false), ("token_updated_at", false),
        ])
    func first(name: String, may: Bool) {
        #expect(ColumnWords(name).mayBeOfFirst == may)
    }

    @Test(
        "a name of a state says what is living, and what stands beside a no says the other",
        arguments: [
            ("is_active", true), ("not_active", false), ("deleted", false), ("not_deleted", true),
            ("opted_out", false), ("push_ok", true), ("pushenabled", true), ("isdisabled", false),
            ("without_push", false), ("note", nil), ("status", nil),
        ] as [(String, Bool?)])
    func polarity(name: String, living: Bool?) {
        #expect(ColumnWords(name).polarity == living)
    }

    @Test(
        "a name is that of the mark the more surely the more it says, and less where it is of others",
        arguments: [
            ("active", 6), ("token_active", 7), ("opted_out", 4), ("push_ok", 5), ("push", 1),
            ("note", 0), ("email_ok", 0), ("phone_verified", -4), ("status", 6),
            ("active_flag", 6),
        ])
    func marks(name: String, score: Int) {
        #expect(ColumnWords(name).markScore == score)
    }

    @Test(
        "a name is that of the time of the mark where it says of one state since when",
        arguments: [
            ("deleted_at", true), ("invalidated_at", true), ("expired_on", true),
            ("dead_date", true),
            ("deleted", false), ("at", false), ("created_at", false), ("user_deleted_at", false),
            ("active_at", false), ("is_deleted_time", true),
        ])
    func markTimes(name: String, isTime: Bool) {
        #expect(ColumnWords(name).namesMarkTime == isTime)
    }

    @Test(
        "a name is that of a person's choice where it says so, or that messages are on or off",
        arguments: [
            ("opt_in", true), ("wants_push", true), ("muted", true), ("email_enabled", true),
            ("push_on", true), ("alerts_ok", true), ("device_enabled", false), ("email", false),
        ])
    func choices(name: String, isChoice: Bool) {
        #expect(ColumnWords(name).isChoice == isChoice)
    }

    @Test(
        "a name ends as that of a state or of a time",
        arguments: [
            ("push_status", true, false), ("flags", true, false), ("state_at", false, true),
            ("created", false, false), ("since", false, true), ("time_status", true, false),
            ("push_flag", true, false),
        ])
    func ends(name: String, asState: Bool, asTime: Bool) {
        #expect(ColumnWords(name).endsAsState == asState)
        #expect(ColumnWords(name).endsAsTime == asTime)
    }

    @Test(
        "a table is of devices, of sendings, a copy, of logins, or of nothing that is known",
        arguments: [
            ("devices", 1.5), ("push_tokens", 1.5), ("subscriptions", 1.5), ("notes", 0),
            ("push_log", -2), ("device_events", -2), ("events_of_devices", 1.5),
            ("devices_bak", -2),
            ("devices_2024", -2), ("devices_1234", 1.5), ("devices_202401", -2), ("sessions", -4),
            ("access_tokens", -4), ("device_logins", -2), ("device_sessions", 1.5),
            ("payments", -4),
            ("api_tokens", -4), ("api_devices", 1.5), ("message_items", -2),
        ])
    func tables(name: String, score: Double) {
        #expect(ColumnWords(name).tableScore == score)
    }

    @Test(
        "a table speaks of devices in several languages, and trusted things are those of logins",
        arguments: [
            ("active_users", true, false), ("users", false, false), ("mobile_users", true, false),
            ("geraete", true, false), ("trusted_tokens", false, true), ("phones", true, false),
            ("push_pairings", true, false), ("pairings", false, true),
        ])
    func languages(name: String, speaks: Bool, isOfTrust: Bool) {
        #expect(ColumnWords(name).speaksOfDevices == speaks)
        #expect(ColumnWords(name).isOfTrust == isOfTrust)
    }

    @Test(
        "a flag names an environment where it says no more than that",
        arguments: [
            ("is_sandbox", true, false), ("sandbox_token", false, false), ("dev", true, false),
            ("push_development", true, false), ("dev_mode", false, false),
            ("apns_debug", true, false),
            ("debug", false, false), ("production", false, true), ("is_production", false, true),
            ("is_prod", false, true), ("prod", false, false), ("production_key", false, false),
        ])
    func flags(name: String, isSandbox: Bool, isProduction: Bool) {
        #expect(ColumnWords(name).isSandboxFlag == isSandbox)
        #expect(ColumnWords(name).isProductionFlag == isProduction)
    }

    @Test(
        "a column tells the environment unless it is that of something else",
        arguments: [
            ("environment", true), ("apns_env", true), ("mode", true), ("gateway", true),
            ("is_prod", true), ("payment_mode", false), ("store_environment", false),
            ("not_sandbox", false), ("env_status", false), ("demo", false), ("note", false),
        ])
    func environments(name: String, tells: Bool) {
        #expect(ColumnWords(name).tellsEnvironment == tells)
    }

    @Test(
        "words of two meanings are no environment by themselves, and flags are read in some languages"
    )
    func values() {
        #expect(ValueWords.means("PROD", ValueWords.production))
        #expect(!ValueWords.means("live", ValueWords.production))
        #expect(ValueWords.means("Development", ValueWords.sandbox))
        #expect(!ValueWords.means("test", ValueWords.sandbox))
        for (word, flag) in [
            ("1", true), ("Yes", true), ("ja", true), ("0", false), ("NEIN", false), ("2", nil),
            ("", nil), ("active", nil),
        ] as [(String, Bool?)] {
            #expect(ValueWords.flag(word) == flag, "\(word)")
        }
        #expect(ValueWords.isLiving("Active") && !ValueWords.isLiving("dead"))
        #expect(ValueWords.isDead("GONE") && ValueWords.isState("gone") && !ValueWords.isState("1"))
        #expect(ValueWords.isFlagOrState("1") && ValueWords.isFlagOrState("active"))
        #expect(!ValueWords.isFlagOrState("android"))
        #expect(ValueWords.deadest(["paused", "active", "Dead", "invalid"]) == "Dead")
        #expect(ValueWords.deadest(["active"]) == nil && ValueWords.deadest([]) == nil)
    }
}
