// The memory of a run holds private keys, the database password and whole tokens, and a core file
// would hold them too, readable long after the run. Two locks, since each leaves a gap: a limit of
// zero bytes keeps the kernel from writing a core file, but not from handing the image to a program
// such as systemd-coredump; a process that is not dumpable is handed to nobody, and other processes
// of the user cannot attach to it or read its environment, where the password may stand.

import COpenSSL
import Glibc

/// Keeps the kernel from writing or handing out this process's memory after a crash. Where it cannot
/// be done the run goes on: it would be no safer for not running.
///
/// Source: core(5), prctl(2) PR_SET_DUMPABLE.
package func forbidCoreDumps() {
    var limit = rlimit(rlim_cur: 0, rlim_max: 0)
    _ = setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
    _ = pushsweep_forbid_dumps()
}
