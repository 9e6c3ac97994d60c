import Findings

// What the examination of a table finds by itself, before a run begins: its names, and what they say. The findings
// that forbid a run are failures of `check`, and the run's own refusal.

extension RuleBook {
    static let table: [Rule] = [
        .examined(
            "unfit-table", .table, in: [.check], "a failure",
            """
            The settings and a table do not agree: a column, a key, a type, an engine or a table of this program is \
            missing or wrong.
            Each run refuses such a table with 78 before it takes anything, because marks would be wrong or lost.
            `pushsweep check --settings` prints the reason and the settings. `pushsweep init ADDRESS` proposes \
            settings for the table.
            Correct `store.active-users`, or run `pushsweep schema apply --upgrade` as an administrator. See \
            docs/tables.md.
            """),
        .examined(
            "table-has-triggers", .table, in: [.check], "medium",
            """
            Triggers run when a row is marked, removed or put back, or when this program writes its own tables.
            The ledger does not have what a trigger writes elsewhere, so no undo takes it back. A trigger may also \
            refuse a change.
            SHOW TRIGGERS LIKE 'active_users'; in SQLite: SELECT name, sql FROM sqlite_master WHERE type = 'trigger';
            Read what the trigger does and remove it if it is not needed. A program can follow changes in its place: \
            docs/changes.md.
            """),
        .examined(
            "referenced-rows", .table, in: [.check], "medium",
            """
            Foreign keys of other tables refer to rows of the token table and keep them from removal.
            Such rows stay, are counted as refused, and may still get sends.
            SELECT table_name, constraint_name FROM information_schema.referential_constraints WHERE \
            referenced_table_name = 'active_users';
            Write `policy.action: mark`, or remove the rows that refer to them first. See docs/operating.md, Rows that \
            refuse a change.
            """),
        .examined(
            "no-registration-time", .table, in: [.check], "medium",
            """
            The token table has no column for the time of registration, or most rows have no time in it.
            A device that comes back cannot be told from a dead one. It is marked or stays marked, and gets nothing.
            `pushsweep check` names the column that it uses. SELECT COUNT(*), COUNT(registered_at) FROM active_users; \
            counts rows and times.
            Add the column with `pushsweep schema apply --upgrade`, or name one under `registered-at`. See \
            docs/registrations.md.
            """),
        .examined(
            "registration-stands-still", .table, in: [.check], "medium",
            """
            Nothing seems to write the time of registration. The column is empty, old, or by its name set once.
            A device that comes back keeps its old time. Older reports mark it, and it gets nothing.
            SELECT MAX(registered_at) FROM active_users; and compare it with the day on which a device last \
            registered.
            Let the application or the triggers of docs/registrations.md write the time at each registration.
            """),
        .examined(
            "registration-moves-too-often", .table, in: [.check], "medium",
            """
            The time of registration moves at any write of the row, or at a send, and not at a registration only.
            A dead token looks registered again, so reports about it are ignored. Sends to it are wasted.
            SHOW CREATE TABLE active_users; shows ON UPDATE CURRENT_TIMESTAMP, and SHOW TRIGGERS LIKE 'active_users'; \
            the triggers.
            Name a column under `store.active-users.registered-at` that only a registration writes. See \
            docs/registrations.md.
            """),
        .examined(
            "unreadable-values", .table, in: [.check],
            "a failure where most rows are concerned, else medium",
            """
            Values of a column cannot be read as times or marks in the form that the settings state.
            A report about such a row changes nothing and is counted as refused. The token stays in use.
            `pushsweep check` names the column and counts the values. SELECT registered_at FROM active_users ORDER BY \
            registered_at DESC LIMIT 20;
            Declare the right `type` and `zone` of the column under `store.active-users`, or correct the rows.
            """),
        .examined(
            "all-marked", .table, in: [.check], "medium",
            """
            Each row of the sample has a time in the column of the mark and registered no later.
            No device would get a notification, and a report would change nothing. Most often another column is meant.
            SELECT COUNT(*), COUNT(invalidated_at), MIN(invalidated_at), MAX(invalidated_at) FROM active_users; counts \
            the marks.
            Name the column of dead tokens under `store.active-users.invalidated-at`, or `none`. See docs/tables.md.
            """),
        .examined(
            "unfindable-tokens", .table, in: [.check],
            "a failure where no token can be found, else medium",
            """
            Tokens are stored in spellings that no search finds: groups, brackets, mixed case, a prefix, or Base64.
            No report matches these rows, so their dead tokens stay. `pushsweep send` does not find them either.
            `pushsweep check` counts the spellings and prints the statements that rewrite them.
            Let the application store plain lower-case hex first, then run these statements. See docs/tables.md, \
            Tokens that are not plain hex.
            """),
        .examined(
            "zone-in-doubt", .table, in: [.check], "medium",
            """
            The zone of the registration time in the settings is ahead of the server's own clock, now or in winter.
            Registrations are then read too early. A device that came back can be marked and get nothing.
            SELECT @@global.time_zone, UTC_TIMESTAMP(), MAX(registered_at) FROM active_users; shows zone, present and \
            newest time.
            Name the smallest offset of the year under `store.active-users.registered-at.zone`. See docs/settings.md.
            """),
        .examined(
            "mark-column-in-doubt", .table, in: [.check], "medium",
            """
            The column of the mark may not be the mark: no setting names it, its two values may be exchanged, or it \
            has further values.
            Marks could go into a column of the application, or living and dead could be confused. Then devices get \
            nothing.
            `pushsweep check --settings` shows which column is used and why. `pushsweep init ADDRESS` says what its \
            rows have.
            Name it under `store.active-users.invalidated-at` or `store.active-users.living`, or write `none`. See \
            docs/tables.md.
            """),
        .examined(
            "mark-reason-not-stored", .table, in: [.check], "medium",
            """
            The column of reasons has a type that cannot hold the reason of a mark, so none is stored.
            Marks are set without their reason. Later nobody sees in the row why it was marked.
            SHOW COLUMNS FROM active_users LIKE 'invalid_reason'; shows the type. `pushsweep explain TOKEN` still \
            tells the reason.
            Make the column VARCHAR(32), or write `store.active-users.reason: none`. See docs/settings.md.
            """),
        .examined(
            "environment-values-in-doubt", .table, in: [.check], "medium",
            """
            The words for production and sandbox in the settings seem to be exchanged, by their meaning or by the \
            column's name.
            Tokens would go to the wrong server of APNs, which calls them bad. Living devices could be marked.
            SELECT environment, COUNT(*) FROM active_users GROUP BY environment; shows the values of the rows.
            Write each word under its own name in `store.active-users.environment.values`. See docs/settings.md.
            """),
        .examined(
            "no-index", .table, in: [.check], "medium",
            """
            No index leads to the tokens of the table, or to the rows of the queue that wait.
            Each search reads the whole table. Runs take long and load the database.
            SHOW INDEX FROM active_users; or SHOW INDEX FROM push_queue; lists the indexes.
            Run `pushsweep schema apply --upgrade` as an administrator. Print its statements first with `--dry-run`.
            """),
        .examined(
            "narrow-column", .table, in: [.check], "medium",
            """
            A column has too little room for what it should hold: longer tokens, or payloads of 4096 bytes.
            Longer values are refused or cut off. Such a device gets nothing, and no report matches its row.
            SHOW COLUMNS FROM active_users; or SHOW COLUMNS FROM push_queue; shows the types. `pushsweep schema print` \
            shows ours.
            Widen the column. If tokens are never longer, set `store.active-users.token.longest`. See \
            docs/first-day.md.
            """),
        .examined(
            "value-in-no-row", .table, in: [.check], "medium",
            """
            No row has a value that the settings name for an app, an environment or a platform.
            Each report about it is about an unknown token and changes nothing. Its evidence is used up.
            SELECT app_id, environment, COUNT(*) FROM active_users GROUP BY app_id, environment; shows the values of \
            the rows.
            Correct `apps[].value`, `environment.values` or `platform.value`. If no such device has registered yet, \
            nothing is wrong.
            """),
        .examined(
            "refused-changes", .table, in: [.check], "medium",
            """
            Rows refused a change lately and are still unchanged: by a trigger, a key, a check, or a value that cannot \
            be read.
            Reports call their devices gone, and the rows still count as living. Sends to them are wasted.
            SELECT row_key, source, changed_at FROM pushsweep_change WHERE action = 'refused' ORDER BY changed_at DESC \
            LIMIT 20;
            Correct the rows, then run `pushsweep replay --feed NAME` within 30 days. See docs/operating.md, Rows that \
            refuse a change.
            """),
        .examined(
            "mark-in-future", .table, in: [.check], "medium",
            """
            Marks that this program made are more than five minutes ahead of the database's clock.
            A device that registers again stays marked until then, so it gets nothing.
            SELECT device_token, invalidated_at FROM active_users ORDER BY invalidated_at DESC LIMIT 20; lists the latest.
            Correct the clock of the database, or of the gateway that named the times, then run the `pushsweep undo` that the finding names. See docs/undo.md.
            """),
        .examined(
            "intake-not-seen", .table, in: [.check], "medium",
            """
            The account sees no table pushsweep_evidence. It is missing, or the account has no right on it.
            If senders report their dead tokens there, nobody takes the rows. The tokens stay in use.
            SHOW TABLES LIKE 'pushsweep_evidence'; as an administrator shows whether it is there. `pushsweep check \
            --grants` prints the rights.
            Run `pushsweep schema apply` if it is missing, then the statements of `pushsweep check --grants`. See \
            docs/evidence.md.
            """),
        .examined(
            "column-question", .table, in: [.check], "note or medium",
            """
            The names or values of columns that the settings leave out look like a part of the settings.
            A column that is left out may decide which devices are living or when they registered. Without it marks \
            can be wrong.
            `pushsweep init ADDRESS` shows what the rows have in these columns and prints the line for the settings.
            Name the column, write `none`, or list it under `store.active-users.ignore-columns`. See docs/tables.md, \
            What check asks about.
            """),
        .examined(
            "whole-rows-removed", .table, in: [.check], "medium",
            """
            `policy.action: delete` removes whole rows, and the rows have columns about a person beside the token.
            With the row go the name, the language or the account that stand in it. An undo brings them back while the \
            ledger has them.
            The finding names the columns. `pushsweep sweep --dry-run` counts the rows that would go.
            Where such a row is more than a device, write `policy.action: mark`. Marks can be undone at any time of the ledger.
            """),
        .examined(
            "intake-exhausted", .table, in: [.check], "medium",
            """
            A sender inserted a row with a number of its own into pushsweep_evidence, and the numbers are used up.
            No sender can insert a report any more. Each gets an error.
            SHOW CREATE TABLE pushsweep_evidence; shows the next number as AUTO_INCREMENT.
            Run a sweep, then the statement that the finding prints, as an administrator. Let senders leave the number out.
            """),
    ]
}
