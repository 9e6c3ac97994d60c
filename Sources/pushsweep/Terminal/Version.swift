import CCommit
import Database
import SecureTransport

/// What `--version` prints: this program, the commit it was built from, and the libraries that this
/// process has loaded.
enum Version {
    /// The version by CHANGELOG.md.
    static let number = "0.3.0"

    /// The commit of the sources. Scripts that build for an installation name it in
    /// `PUSHSWEEP_COMMIT`; `-modified` at its end means uncommitted changes. `unknown` after a
    /// plain `swift build`.
    static let commit = String(cString: pushsweep_commit())

    /// One fact a line.
    static let text = """
        pushsweep \(number)
        commit \(commit)
        OpenSSL \(TLSClientContext.libraryVersion)
        libmariadb \(MariaDBConnection.libraryVersion)
        nghttp2 \(HTTP2Library.version)
        SQLite \(SQLiteConnection.libraryVersion)
        """
}
