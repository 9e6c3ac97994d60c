/// The table and columns of the notifications to send, as far as the settings name them; the rest
/// is detected in the database. The defaults fit the PushChat tables and the schema of `schema
/// print`. Names of apps and environments are spelled as in the token table.
package struct QueueMapping: Hashable, Sendable {
    /// The table, `name` or `schema.name`.
    package var table = "push_queue"
    /// The column of whole numbers that identifies a row and gives the order of sending; nil:
    /// `message_id` or `id`, else the primary key.
    package var key: String?
    /// The column of the token to send to.
    package var token = "device_token"
    /// Its encoding; nil: binary in a binary column, hex in a text column.
    package var encoding: TokenEncoding?
    /// The column of the JSON to send.
    package var payload = "payload"
    /// The column of the app's name.
    package var app = OptionalColumn.detect("app_id")
    /// The column of the environment's name.
    package var environment = OptionalColumn.detect("environment")
    /// The column of `apns-push-type`.
    package var pushType = OptionalColumn.detect("push_type")
    /// The column of `apns-priority`.
    package var priority = OptionalColumn.detect("priority")
    /// The column of `apns-expiration`, in seconds since 1970.
    package var expiration = OptionalColumn.detect("expiration")
    /// The column of `apns-collapse-id`.
    package var collapseID = OptionalColumn.detect("collapse_id")
    /// The time at which the notification was queued; nil: `time_queued` or `queued_at`, if one
    /// exists.
    package var queuedAt: OptionalColumn?
    /// The time at which it was sent; NULL until then, and permanently in rows that are not sent.
    package var sentAt = OptionalColumn.detect("time_sent")
    /// The delivery state. This and the following four columns are used together or not at all:
    /// where one is missing, all five are in `pushsweep_delivery`.
    package var state = OptionalColumn.detect("state")
    /// The number of attempts.
    package var attempts = OptionalColumn.detect("attempts")
    /// The reason why it was skipped, refused or delayed.
    package var reason = OptionalColumn.detect("reason")
    /// The earliest time to send it.
    package var notBefore = OptionalColumn.detect("not_before")
    /// The time of its final result.
    package var answeredAt = OptionalColumn.detect("answered_at")
    /// The type of the time columns' values; nil: detected from the columns' types.
    package var timeType: TimeColumnType?
    /// The zone of time columns that are a DATETIME.
    package var zone = ZoneOffset.utc

    /// Makes a mapping with all defaults.
    package init() {}
}
