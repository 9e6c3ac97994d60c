import SecureTransport

/// Finds and reads the files of the settings.
enum SettingsFile {
    /// The variable that names the settings file.
    static let variable = "PUSHSWEEP_CONFIG"
    /// Largest settings file read, in bytes: a thousand times the sample.
    static let largest = 4 << 20
    /// Largest password file read, in bytes.
    static let largestSecret = 64 << 10

    /// Why a file could not be read.
    enum ReadFailure: Error, Equatable {
        case refused(GuardedFile.Refusal)
        case notText
    }

    /// The text of a settings file.
    static func text(_ path: String) throws(ReadFailure) -> String {
        do {
            return try decoded(GuardedFile.read(path, limit: largest))
        } catch let refusal as GuardedFile.Refusal {
            throw .refused(refusal)
        } catch {
            throw .notText
        }
    }

    /// The only line of a file that holds a secret, without its line end. As ssh does with keys, a
    /// file that its group or others can read is refused: by then the secret is none.
    static func secret(_ path: String) throws(ReadFailure) -> String {
        var text: String
        do {
            text = try decoded(GuardedFile.readSecret(path, limit: largestSecret))
        } catch let refusal as GuardedFile.Refusal {
            throw .refused(refusal)
        } catch {
            throw .notText
        }
        // One line end only: a password may end in a space, and editors add exactly one.
        if text.unicodeScalars.last == "\n" { text.unicodeScalars.removeLast() }
        if text.unicodeScalars.last == "\r" { text.unicodeScalars.removeLast() }
        return text
    }

    private static func decoded(_ file: GuardedFile) throws(ReadFailure) -> String {
        guard let text = String(validating: file.bytes, as: UTF8.self) else { throw .notText }
        return text
    }
}

extension SettingsFile.ReadFailure {
    /// The problem in one sentence about a file.
    func problem(reading what: String) -> SettingsFailure.Problem {
        func problem(
            _ text: String, _ kind: SettingsFailure.Kind = .configuration
        ) -> SettingsFailure.Problem {
            .init(kind: kind, description: "\(what): \(text)")
        }
        switch self {
        case .notText: return problem("it is not valid UTF-8; save it as UTF-8")
        case .refused(let refusal):
            switch refusal {
            case .missing: return problem("there is no such file; create it or correct the path")
            case .denied:
                return problem("this user may not read it; change its owner or mode", .permission)
            case .openToOthers(let mode):
                return problem(
                    "others may read it (mode 0\(String(mode & 0o777, radix: 8))); give it mode 0600 "
                        + "and, if the secret may have been seen, a new secret", .permission)
            case .tooLarge(let limit):
                return problem(
                    "it is larger than \(SettingSize.text(limit)); check that this is the right file"
                )
            case .foreign: return problem(refusal.sentence ?? "", .permission)
            case .notRegular, .failed: return problem(refusal.sentence ?? "")
            }
        }
    }
}
