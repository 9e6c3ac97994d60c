/// Limits on values of a server's status: `Threads_running=25,wsrep_local_recv_queue=100`, or a
/// number alone for `Threads_running`. The spelling is that of gh-ost and pt-online-schema-change.
package struct LoadLimits: Hashable, Sendable, CustomStringConvertible {
    /// The variable for a number alone: the statements running on the server, including this
    /// program's.
    static let usual = "Threads_running"

    /// The limit of one variable.
    struct Limit: Hashable, Sendable {
        /// A variable of SHOW GLOBAL STATUS.
        let name: String
        /// The highest allowed value.
        let most: Double
    }

    let limits: [Limit]

    /// Parses limits.
    ///
    /// - Throws: the error in the text, as the end of a sentence that begins with the setting.
    package init(_ text: String) throws(SettingRefusal) {
        var limits: [Limit] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let halves = part.split(separator: "=", omittingEmptySubsequences: false)
            let name = halves.count == 2 ? String(halves[0]) : Self.usual
            guard halves.count <= 2, let number = halves.last, Self.isName(name),
                let most = Self.number(number)
            else {
                throw SettingRefusal(
                    "must be a number of running threads, or figures of SHOW GLOBAL STATUS with their "
                        + "limits, such as Threads_running=25,Threads_connected=400")
            }
            guard !limits.contains(where: { $0.name.lowercased() == name.lowercased() }) else {
                throw SettingRefusal("limits \(name) twice; keep one")
            }
            limits.append(Limit(name: name, most: most))
        }
        self.limits = limits
    }

    /// Names go into a statement unquoted, so they may have letters, digits and underscores only.
    private static func isName(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { PlainText.isAlphanumeric($0) || $0 == UInt8(ascii: "_") }
    }

    private static func number(_ text: Substring) -> Double? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count <= 2, parts.allSatisfy({ PlainText.wholeNumber($0) != nil }) else {
            return nil
        }
        return Double(text)
    }

    /// The limits in the spelling that `init` accepts.
    package var description: String {
        limits.map { "\($0.name)=\(Self.text($0.most))" }.joined(separator: ",")
    }

    /// A number without a needless fraction.
    static func text(_ number: Double) -> String {
        Int64(exactly: number).map(String.init) ?? String(number)
    }

    /// The first variable above its limit, in words; nil where none is.
    func excess(_ status: [String: Double]) -> String? {
        for limit in limits {
            guard let figure = status[limit.name.lowercased()], figure > limit.most else {
                continue
            }
            return "\(limit.name) is \(Self.text(figure)), the limit \(Self.text(limit.most))"
        }
        return nil
    }
}
