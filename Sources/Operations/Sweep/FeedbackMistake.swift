// What the address of a feedback gateway shows without a connection. Apple closed its gateways in 2021;
// its other names are those of HTTP/2 gateways.

import Settings

extension Settings.App {
    /// Why the address of the feedback gateway cannot be right, with what to do; nil when it may be.
    func feedbackMistake(among apps: [Settings.App]) -> String? {
        guard let feedback else { return nil }
        let key = "apps[\(partition)].feedback"
        let address = "\(feedback.host):\(feedback.port)"
        let host = feedback.host.lowercased()
        if host == "push.apple.com" || host.hasSuffix(".push.apple.com") {
            let cure =
                "remove \(key) and sweep the 410 answers of the sender: insert them into "
                + "pushsweep_evidence, import its log, or give this app a provider"
            return host.hasPrefix("feedback.")
                ? "\(key) is \(address), and Apple closed this gateway in 2021; \(cure)"
                : "\(key) is \(address), where Apple takes notifications over HTTP/2 and has no "
                    + "feedback; \(cure)"
        }
        for app in apps {
            for (group, other) in [
                ("provider", app.provider.map { ($0.host, $0.port) }),
                ("binary", app.binary.map { ($0.host, $0.port) }),
            ] {
                guard let other, other.0.lowercased() == host, other.1 == feedback.port else {
                    continue
                }
                return
                    "\(key) is \(address), and apps[\(app.partition)].\(group) has the same address; "
                    + "one port speaks one protocol: correct the port of one of them"
            }
        }
        return nil
    }
}
