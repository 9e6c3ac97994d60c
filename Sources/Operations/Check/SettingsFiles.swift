import Glibc
import SecureTransport
import Settings

extension Settings {
    /// The files that the settings name and runs read, with their keys.
    private var files: [(key: String, path: String)] {
        var files: [(String, String?)] = [("store.tls.ca", store.tls.ca)]
        for app in apps {
            let key = "apps[\(app.partition)]"
            files += [
                ("\(key).certificate.file", app.certificate?.file),
                ("\(key).certificate.key", app.certificate?.key),
                ("\(key).certificate.passphrase-file", app.certificate?.passphraseFile),
                ("\(key).token-key.file", app.tokenKey?.file),
                ("\(key).feedback.ca", app.feedback?.ca), ("\(key).provider.ca", app.provider?.ca),
                ("\(key).binary.ca", app.binary?.ca),
            ]
        }
        return files.compactMap { key, path in path.map { (key, $0) } }
    }

    /// The files that do not exist.
    var missingFiles: [(key: String, path: String)] {
        files.filter { _, path in
            access(path, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)
        }
    }

    /// The files that exist and are not regular. A library that opens a pipe waits for its writer.
    var irregularFiles: [(key: String, path: String)] {
        files.filter { _, path in
            do throws(GuardedFile.Refusal) {
                try GuardedFile.ensureRegular(path)
                return false
            } catch {
                return error == .notRegular
            }
        }
    }
}
