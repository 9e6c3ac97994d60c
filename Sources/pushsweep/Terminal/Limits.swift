import Glibc
import Operations

/// Limits of the system under which a job would not end as it should.
enum Limits {
    /// Files that may be open at once, at least. A sweep has a dozen open; where the next cannot be
    /// opened, libraries may end the process without a word.
    private static let files: rlim_t = 32

    /// Makes room for the files of a job.
    ///
    /// - Throws: a failure of the configuration, where not even the hard limit leaves enough.
    static func ensure() throws(RunFailure) {
        // A file that may not grow any more is an error to be told, and not the end of the process.
        signal(SIGXFSZ, SIG_IGN)
        var limit = rlimit()
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(kind, &limit) == 0, limit.rlim_cur < files else { return }
        let given = limit.rlim_cur
        limit.rlim_cur = min(files, limit.rlim_max)
        guard setrlimit(kind, &limit) == 0, limit.rlim_cur == files else {
            throw RunFailure(
                .configuration, .settings,
                "starting: only \(given) files may be open at once, and \(files) are needed; raise "
                    + "the limit (ulimit -n, LimitNOFILE)")
        }
    }
}
