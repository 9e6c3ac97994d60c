extension RuleBook {
    /// The settings and the files that they name.
    static let settings: [Rule] = [
        .examined(
            "no-app", .settings, in: [.check], "medium",
            """
            The settings name no app, or no settings file was read.
            There is nothing to sweep and nothing to send. No dead token is found.
            `pushsweep check --settings` shows which file was read and every setting. `pushsweep check --example` \
            prints a file to start from.
            Name the app under `apps` with `name`, `topic` and `environment`. See docs/first-day.md, Settings.
            """),
        .examined(
            "setting-without-effect", .settings, in: [.check], "medium",
            """
            A setting has no effect beside another one: `policy.delete-after` while `policy.action` is `mark`.
            Rows are marked and never removed, though the setting suggests that they go after a time.
            `pushsweep check --settings` shows both settings and where each comes from.
            Remove `policy.delete-after`, or write `policy.action: delete`. See docs/settings.md, Stale rows.
            """),
        .examined(
            "missing-file", .settings, in: [.check], "a failure",
            """
            A file of the settings is missing, or is no regular file.
            Runs that need it end with 78. Nothing is sent or swept with it.
            `pushsweep check --settings` shows the path and where it comes from. A relative path starts at the folder \
            of the settings file.
            Correct the path, or put the file there. Name the file itself and no folder, pipe or device.
            """),
        .examined(
            "state-unusable", .settings, in: [.check],
            "a failure; medium where another run is at work",
            """
            The state folder cannot be made or used. Its place, owner or mode is wrong, or too little room is free.
            Without it no run starts. Reports are not taken, and dead tokens stay in use.
            `sudo -u pushsweep pushsweep check` says what is wrong with it for the user of the job.
            Make it for that user: `install -d -o pushsweep -g pushsweep -m 0700 /var/lib/pushsweep`, or correct \
            `state`. See docs/operating.md.
            """),
        .examined(
            "metrics-file", .settings, in: [.check],
            "a failure where it cannot be written, medium for a name that nobody reads",
            """
            The metrics file cannot be written, or its name does not end in `.prom`.
            A run that cannot write it ends with 73. The node exporter reads no other names, so no alert would fire.
            `pushsweep check --settings` shows `report.metrics-file`. `pushsweep check` examines its folder.
            Let the user of the job write into the folder, or correct `report.metrics-file`. See docs/metrics.md.
            """),
    ]
}
