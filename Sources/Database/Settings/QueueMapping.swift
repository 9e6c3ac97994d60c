/// Which table and columns hold the notifications to send, as far as the settings say; the rest is
/// found out from the database. The defaults fit the PushChat tables and the schema that
/// `schema print` gives. Names of apps and environments are spelled as in the token table.
package struct QueueMapping: Hashable, Sendable {
    /// The table, `name` or `schema.name`.
    package var table = "push_queue"
    /// Whether the table is to be made where it is not there: somebody sends from it.
    package var isWanted = false
    /// The column of whole numbers that identifies a row and gives the order of sending; nil:
    /// `message_id` or `id`, else the primary key.
    package var key: String?
    /// The column of the token to send to.
    package var token = "device_token"
    /// How it is spelled there; nil: binary in a binary column, hex in a text column.
    package var encoding: TokenEncoding?
    /// The column of the JSON to send.
    package var payload = "payload"
    /// The column that names the app.
    package var app = OptionalColumn.detect("app_id")
    /// The column that names the environment.
    package var environment = OptionalColumn.detect("environment")
    /// The column of `apns-push-type`.
    package var pushType = OptionalColumn.detect("push_type")
    /// The column of `apns-priority`.
    package var priority = OptionalColumn.detect("priority")
    /// The column of `apns-expiration`, in seconds since 1970.
    package var expiration = OptionalColumn.detect("expiration")
    /// The column of `apns-collapse-id`.
    package var collapseID = OptionalColumn.detect("collapse_id")
    /// When the notification was queued; nil: `time_queued` or `queued_at`, whichever there is.
    package var queuedAt: OptionalColumn?
    /// When it was sent; NULL until then, and for ever in rows that are not sent.
    package var sentAt = OptionalColumn.detect("time_sent")
    /// What has become of the row. This and the following four are used together or not at all:
    /// where one is missing, all five stand in `pushsweep_delivery`.
    package var state = OptionalColumn.detect("state")
    /// How often it was tried.
    package var attempts = OptionalColumn.detect("attempts")
    /// Why it was skipped, refused or put off.
    package var reason = OptionalColumn.detect("reason")
    /// The time before which it is not sent.
    package var notBefore = OptionalColumn.detect("not_before")
    /// When it came to its end.
    package var answeredAt = OptionalColumn.detect("answered_at")
    /// What the time columns hold; nil: read from the columns' types.
    package var timeType: TimeColumnType?
    /// The zone of time columns that are a DATETIME.
    package var zone = ZoneOffset.utc

    /// Starts with all defaults.
    package init() {}
}
