import Findings

extension RuleBook {
    /// The database server and its clock. The first are failures of any command.
    static let server: [Rule] = [
        .one(
            "clock-difference", .server, in: [.check, .preflight],
            "high above 5 minutes, medium above 5 seconds",
            """
            The clocks of this host and of the database differ by more than 5 seconds.
            Reports and registrations are compared by their times. With wrong clocks living devices can be marked, and \
            dead ones kept.
            `pushsweep preflight --app NAME --read-only --format json` has `clockDifference` in milliseconds.
            Let both hosts keep their time with NTP, for instance with chrony. Then run `pushsweep check` again.
            """, needs: \.clock
        ) { clock, facts in clock.finding(about: facts.location) },
        .one(
            "old-rows", .server, in: [.preflight], "medium",
            """
            A replica answers under the address in `store.url`, and not the primary.
            Its rows may lack the newest marks and registrations. Tokens can be judged wrongly by them.
            `pushsweep check` names the server that answers and what it is.
            Write the address of the primary into `store.url`. See docs/clusters.md, Replicas and proxies.
            """, needs: { $0.isReplica ? $0.location : nil }
        ) { location, _ in
            Finding(
                .medium, location,
                "a replica answers, so tokens are judged by rows that may lack the latest marks "
                    + "and registrations",
                cure: "write the primary's address into store.url, or look at the "
                    + "replica's lag first")
        },
        .examined(
            "database-unreachable", .server, in: [.check], "a failure",
            """
            No host of `store.url` could be reached. The address, the network or the server is at fault.
            No run can read or change rows while that lasts. Reports wait, and nothing is sent.
            `pushsweep check` prints the error of each host. `pushsweep check --settings` shows `store.url`.
            Start the server, or correct `store.url`. Then run `pushsweep check` again. See docs/operating.md, The \
            database.
            """),
        .examined(
            "database-untrusted", .server, in: [.check], "a failure",
            """
            The database could not prove its name with a certificate that is trusted here.
            Runs refuse such a connection, because passwords and tokens could go to a stranger.
            `pushsweep check` prints what is wrong with the certificate. `pushsweep check --settings` shows \
            `store.tls.mode` and `store.tls.ca`.
            Name the file of the authority under `store.tls.ca`, and write the name of the certificate into \
            `store.url`. See docs/operating.md.
            """),
        .examined(
            "database-busy", .server, in: [.check], "a failure",
            """
            The database takes no work at present: too many connections, locks that stay, or a cluster node without a \
            majority.
            Runs wait and then end with 75 or 69. Until then reports are not applied.
            `pushsweep check` prints the error. SHOW PROCESSLIST; on the server shows what it does.
            Wait and run it again. If it repeats, free connections or mend the cluster: docs/clusters.md.
            """),
        .examined(
            "database-read-only", .server, in: [.check], "a failure",
            """
            The server or the file of the database takes no changes.
            No mark can be set and no result kept. Runs wait and then end.
            SELECT @@hostname, @@read_only; on the server shows whether it is set to read-only.
            End its maintenance, or write the server that takes changes into `store.url`. A SQLite file must be \
            writable for the user of the job.
            """),
        .examined(
            "database-failure", .server, in: [.check], "a failure",
            """
            The database answered with an error that is of no other kind.
            The look stopped there, so later parts are not examined. A run may stop at the same place.
            `pushsweep check` prints the sentence with the database's own error and number.
            Look the number up in the manual and the log of the server. Exit codes are in docs/operating.md.
            """),
        .examined(
            "missing-right", .server, in: [.check], "a failure",
            """
            The account of the database lacks a right that a job needs.
            The job ends with 77 before it changes anything. Dead tokens stay in use.
            `pushsweep check` prints the GRANT that is missing. `pushsweep check --grants` prints all of them, job by \
            job.
            Run the printed statements as an administrator. See docs/operating.md, Rights.
            """),
        .examined(
            "clocks-of-hosts", .server, in: [.check], "medium",
            """
            The clocks of two hosts in `store.url` differ by more than 2 seconds.
            A lease is compared with the clock of the host that answers. A living run can lose its lease to another \
            one.
            `pushsweep check` names the two hosts and the seconds. SELECT UTC_TIMESTAMP(3); on each host shows its \
            time.
            Keep the clocks of all hosts together, for instance with chrony. See docs/clusters.md.
            """),
        .examined(
            "small-packets", .server, in: [.check], "medium",
            """
            The server takes only short statements. Its `max_allowed_packet` is below 1 MiB.
            Rows may refuse removal, and an undo or a large batch may be refused.
            SHOW VARIABLES LIKE 'max_allowed_packet'; shows the limit in bytes.
            Set `max_allowed_packet` to 1048576 or more in the server's settings. Then start running senders anew.
            """),
        .examined(
            "old-server", .server, in: [.check], "medium",
            """
            The database is older than MariaDB 10.6 or MySQL 8.0.
            Pushsweep was not tried with it. A statement may fail or have another effect.
            SELECT VERSION(); shows the version. `pushsweep check` prints it too.
            Upgrade the server to a version that Pushsweep was tested with. See docs/operating.md, Supported versions.
            """),
        .examined(
            "server-in-doubt", .server, in: [.check], "medium",
            """
            The account may not see whether the server is a replica, the server does not say who it is, or a cluster \
            node is not in step.
            A mark that is set on a replica never reaches the primary, and its evidence is used up.
            `pushsweep check` prints the role of the server and the GRANT that is missing. SELECT @@hostname, \
            @@server_id; names the server.
            Give the account that right, or name the primary in `store.url`. See docs/clusters.md, Replicas and \
            proxies.
            """),
        .examined(
            "host-unusable", .server, in: [.check], "medium",
            """
            One host of `store.url` cannot be used. It does not answer, or refuses the account.
            A run that loses its host could not go on there. Then it ends, and reports wait.
            `PUSHSWEEP_STORE_URL=mysql://pushsweep@HOST/push pushsweep check` examines that host alone.
            Mend the host, or take it out of `store.url`. See docs/clusters.md, Several hosts in the address.
            """),
        .examined(
            "replica-unusable", .server, in: [.check], "medium",
            """
            A replica whose lag counts does not replicate or does not answer.
            It counts as lagging. Runs pause for ten minutes and end with 75, so reports wait.
            SHOW REPLICA STATUS; on that server shows its state. `pushsweep check --settings` shows \
            `throttle.replicas` and `throttle.max-lag`.
            Start its replication, or correct `throttle.replicas`. The account needs a right there: docs/operating.md, \
            A busy database.
            """),
    ]
}
