import Glibc

private let ignored: Void = {
    signal(SIGPIPE, SIG_IGN)
}()

/// Makes a write to a closed connection an error instead of the end of the process.
///
/// OpenSSL writes with write(2), which has no MSG_NOSIGNAL, so SIGPIPE is ignored for the whole
/// process (signal(7)). Both contexts call this; calling it again changes nothing.
package func ignoreBrokenPipes() {
    _ = ignored
}
