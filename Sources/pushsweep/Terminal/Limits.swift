import Glibc
import Operations

/// Limits of the system that a job needs.
enum Limits {
    /// The least number of files that may be open at once. A sweep has a dozen open. When another
    /// cannot be opened, libraries may end the process without a message.
    private static let files: rlim_t = 32

    /// Raises the limit of open files for a job.
    ///
    /// - Throws: a failure of the configuration, when even the hard limit is too low.
    static func ensure() throws(RunFailure) {
        // A file that reached its size limit must cause an error message, and not the end of the
        // process.
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
