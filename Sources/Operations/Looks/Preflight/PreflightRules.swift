import APNsProtocol
import Database
import Findings
import Glibc
import SecureTransport
import Settings
import TokenHygiene

typealias PreflightRule = Rule<PreflightFacts>

/// The rules of `preflight`, in the order of reports.
package enum PreflightRules {
    static let all = tokens + evidence + pulse + credentials + clocks + provider + ignoring

    /// The names that an entry of an ignore file may have. A mistake in the file cannot ignore itself.
    package static let ignorable = all.map(\.name).filter { !$0.hasPrefix("ignore-") }

    /// What the rules find, each finding once, with the decisions of the ignore file.
    static func findings(_ facts: PreflightFacts) -> [Finding] {
        var findings: [Finding] = []
        for finding in all.flatMap({ $0.findings(facts) }) where !findings.contains(finding) {
            findings.append(finding)
        }
        return facts.plan.ignore.applied(to: findings, at: facts.now)
    }

    // MARK: The tokens

    /// The share above which a loss is not small, and the one from which most of a send is lost.
    private static let (someShare, mostShare) = (0.01, 0.5)

    /// A rule about a part of the tokens. `severity` gets the part's share of all tokens, and the largest
    /// share of stale ones that is no reason to stop.
    private static func share(
        _ name: String, of part: @escaping @Sendable (TokenCounts) -> Int,
        _ severity: @escaping @Sendable (Double, Double) -> Severity, _ what: String, cure: String
    ) -> PreflightRule {
        Rule(name) { facts in
            guard let tokens = facts.tokens, part(tokens) > 0 else { return nil }
            let count = part(tokens)
            let share = Double(count) / Double(tokens.read)
            let tenths = Int((share * 1_000).rounded(.up))
            return Finding(
                severity(share, facts.plan.mostStale), facts.partition,
                "\(count) of \(tokens.read) tokens (\(tenths / 10).\(tenths % 10) %) \(what)",
                cure: cure)
        }
    }

    private static let tokens: [PreflightRule] = [
        Rule("no-tokens") { facts in
            guard facts.tokens?.read == 0 else { return nil }
            return Finding(
                .note, facts.partition, "there is no token to send to",
                cure: "check the queue or the list, unless nothing is to be sent")
        },
        Rule("queue-rows-of-no-app") { facts in
            facts.unowned.map { Finding(.high, $0.table, $0.sentence, cure: $0.cure) }
        },
        Rule("marks-of-no-app") { facts in
            facts.stranded.map {
                Finding($0.severity, facts.partition, $0.sentence, cure: $0.cure)
            }
        },
        share(
            "no-living-tokens",
            // Each share may be below its limit.
            of: { $0.living == 0 ? $0.read : 0 }, { _, _ in .high },
            "lead to no living row, so nothing would arrive",
            cure: "check that the list, the app, its environment and store.url belong together"),
        share(
            "stale-tokens", of: \.stale, { $0 > $1 ? .high : .note }, "are stale",
            cure: "leave them out, for example with preflight --filter"),
        share(
            "idle-tokens", of: \.idle, { _, _ in .note },
            "have not registered for the time of policy.idle-after, and send leaves them out",
            cure: "leave them out, for example with preflight --filter"),
        share(
            "unknown-tokens", of: \.unknown,
            { $0 > mostShare ? .high : $0 > $1 ? .medium : .note },
            "have no row in the token table",
            cure: "check that the list and store.url belong together; preflight --filter "
                + "--only-known leaves them out"),
        share(
            "malformed-tokens", of: \.malformed,
            { share, _ in share > mostShare ? .high : share > someShare ? .medium : .low },
            "are not device tokens", cure: "correct the list; preflight --filter leaves them out"),
        share(
            "duplicate-tokens", of: \.duplicate,
            { share, _ in share > someShare ? .medium : .low }, "occur more than once",
            cure: "send to each token once, else its user gets several notifications"),
        Rule("uncounted-duplicates") { facts in
            guard facts.missesDuplicates else { return nil }
            return Finding(
                .note, facts.partition,
                "the memory for finding duplicates was used up, so some are not counted",
                cure: "raise --memory")
        },
        share(
            "other-environment-tokens", of: \.otherEnvironment,
            { share, _ in share > someShare ? .high : .medium },
            "are registered in the other environment only",
            cure: "send them with the app of that environment, or correct apps[].environment"),
    ]

    // MARK: The evidence

    private static let evidence: [PreflightRule] = [
        .each("pending-evidence") { facts in
            var findings = facts.refusals.map {
                Finding(
                    .medium, facts.partition, "what waits could not be applied: \($0)",
                    cure: "wait for the other run or run again; --read-only looks without applying")
            }
            let feeds = facts.host.journals.flatMap { $0.feeds(in: .pending, .reading, .taking) }
                .count { $0.partition == facts.plan.app.partition }
            let waiting = facts.batches.waiting(of: facts.plan.app.partition)
            let left = facts.host.leftReports[facts.plan.app.partition] ?? 0
            if feeds + waiting.count + facts.waitingRows + left > 0 {
                findings.append(
                    Finding(
                        .medium, facts.partition,
                        "not applied yet: \(feeds.counting("feed")) of the journals, "
                            + "\(waiting.count.counting("batch")) of reports, \(facts.waitingRows.counting("row")) of pushsweep_evidence"
                            + (left > 0 ? ", \(left.counting("answer")) that a sender left" : ""),
                        cure: "run preflight without --read-only, or a sweep"))
            }
            return findings
        },
        .each("open-hold") { facts in
            if let unseen = facts.batches.unseen {
                return [
                    Finding(
                        .high, facts.partition, "whether a removal waits for a person is not known",
                        cause: "\(unseen)",
                        cure: "give the account its rights: pushsweep check --grants")
                ]
            }
            return facts.batches.holds
                .filter { $0.partition == facts.plan.app.partition }.map { hold in
                    Finding(
                        .high, "hold \(hold.id)",
                        "a removal in \(hold.partition) waits for a person: \(hold.cause)",
                        cure: "look at it with: pushsweep holds show \(hold.id)")
                }
        },
        .each("quarantined-evidence") { facts in
            facts.batches.quarantined.isEmpty
                ? []
                : [
                    Finding(
                        .low, "quarantine",
                        "\(facts.batches.quarantined.count.counting("batch")) with parts that could not be used",
                        cure: "look at them with: pushsweep quarantine list")
                ]
        },
        .each("suspect-tokens") { facts in
            var share = SuspectShare(
                suspects: facts.suspects, tokens: facts.living, object: facts.partition,
                limit: facts.plan.mostSuspect)
            if let tokens = facts.tokens {
                share = SuspectShare(
                    suspects: facts.suspects, tokens: tokens.read, among: tokens.suspect,
                    noun: "token", object: facts.partition, limit: facts.plan.mostSuspect)
            }
            return share.finding.map { [$0] } ?? []
        },
        .each("unreadable-state") { facts in
            // High where something could not be seen: a hold may be in it. Medium where a damaged file was
            // set aside, and a run has begun a new one.
            let unreadable = facts.host.unreadable.map { (Severity.high, "\($0.failure)") }
            return (unreadable + facts.host.damage.map { (.medium, $0) }).map {
                Finding(
                    $0, facts.plan.settings.state, $1,
                    cure: "run preflight as the user who sweeps, or: pushsweep check")
            }
        },
        Rule("no-recent-sweep") { facts in
            let sentence: String
            if let success = facts.lastSweep, let hours = facts.hoursSinceSweep {
                guard hours > facts.plan.mostHours else { return nil }
                sentence =
                    "the last sweep that succeeded ended at \(success.rfc3339), \(Int(hours)) hours ago"
            } else if let future = facts.successes.max() {
                sentence =
                    "the only sweep known to have succeeded ended at \(future.rfc3339), which is in the "
                    + "future, so a clock was or is wrong and it counts as none"
            } else {
                sentence = "neither this host nor the database knows a sweep that succeeded"
            }
            return Finding(
                .medium, facts.partition, sentence,
                cure: "run a sweep, or check that its timer runs")
        },
    ]

    // MARK: The rhythm of the evidence

    /// A sender may go on without evidence, so the gate stays open.
    private static let pulse = PulseFinding.rules.map { rule in
        PreflightRule.each(rule) {
            $0.pulse.findings(rule, of: $0.plan.app.partition, atMost: .medium)
        }
    }

    // MARK: Certificate, key, topic, environment

    // They are compared with each other, because an answer of the provider proves less: it accepts the key
    // of a team for every topic and both environments.

    /// A rule about the certificate.
    private static func certificate(
        _ name: String,
        _ judge: @escaping @Sendable (TLSIdentity, PreflightFacts) -> (Severity, String, String)?
    ) -> PreflightRule {
        Rule(name) { facts in
            guard case .success(let identity) = facts.identity,
                let (severity, sentence, cure) = judge(identity, facts)
            else { return nil }
            let file = facts.plan.app.certificate?.file ?? ""
            return Finding(severity, file, sentence, cure: cure)
        }
    }

    /// With a token key the provider does not see the certificate.
    private static func severityOfUnfit(_ app: Settings.App) -> Severity {
        app.tokenKey == nil || app.binary != nil ? .high : .low
    }

    private static let credentials: [PreflightRule] = [
        Rule("credential-unusable") { facts in
            if case .failure(let failure) = facts.identity {
                return Finding(
                    .high, facts.plan.app.certificate?.file ?? "", failure.description,
                    cure: "correct the files under \(facts.key).certificate")
            }
            // What is wrong with an expired certificate is said already.
            guard let refusal = facts.refusedCredential, facts.invalidity == nil else { return nil }
            return Finding(
                .high, facts.gateway, refusal.description,
                cure: "correct \(facts.key).certificate or \(facts.key).token-key")
        },
        certificate("certificate-expired") {
            _, facts in
            facts.invalidity.map {
                (.high, $0.description, "renew the certificate, or correct this host's clock")
            }
        },
        certificate("certificate-ends-soon") {
            identity, facts in
            guard facts.invalidity == nil, identity.endsSoon(at: facts.now) else { return nil }
            let isUrgent = identity.ends < facts.now.advanced(by: 7 * 86_400_000)
            return (
                isUrgent ? .medium : .low, "the certificate ends at \(identity.ends.rfc3339)",
                "renew it"
            )
        },
        certificate("certificate-topic") {
            identity, facts in
            let app = facts.plan.app
            guard !identity.covers(topic: app.topic) else { return nil }
            return (
                severityOfUnfit(app),
                "the certificate is for \(identity.topics.joined(separator: ", ")), and the topic is "
                    + app.topic,
                "correct \(facts.key).topic, or name the certificate of this app"
            )
        },
        certificate("certificate-environment") {
            identity, facts in
            let (app, named) = (facts.plan.app, identity.environments.map(\.rawValue).sorted())
            guard !named.isEmpty, !named.contains(app.environment.rawValue) else { return nil }
            return (
                severityOfUnfit(app),
                "the certificate is for \(named.joined(separator: ", ")), and the environment is "
                    + app.environment.rawValue,
                "correct \(facts.key).environment, or name the certificate of that environment"
            )
        },
        Rule("provider-environment") { facts in
            let app = facts.plan.app
            let theirs: Settings.Environment? =
                switch app.provider?.host.lowercased() {
                case "api.push.apple.com": .production
                case "api.sandbox.push.apple.com", "api.development.push.apple.com": .sandbox
                default: nil
                }
            guard let theirs, theirs != app.environment else { return nil }
            return Finding(
                .high, facts.gateway,
                "the provider is Apple's for \(theirs.rawValue), and the environment is "
                    + app.environment.rawValue,
                cure: "correct \(facts.key).provider.host or \(facts.key).environment")
        },
        Rule("feedback-address") { facts in
            let object = "\(facts.key).feedback"
            return facts.plan.app.feedbackMistake(among: facts.plan.settings.apps).map {
                Finding(.low, object, $0, cure: "correct or remove \(object)")
            }
        },
    ]

    // MARK: Time, and the server

    private static let clocks: [PreflightRule] = [
        Rule("clock-difference") { facts in
            facts.clock.finding(about: "\(facts.plan.settings.store.location)")
        },
        Rule("registrations-ahead") { facts in
            guard let (clock, table) = facts.registrations, clock.ahead > 0 else { return nil }
            return Finding(
                clock.ahead * 2 > clock.rows ? .high : .medium, table,
                "\(clock.ahead) of the newest \(clock.rows) registrations lie in the future, up to "
                    + "\(clock.farthest / 60_000) minutes: such a row is never stale",
                cure: "correct store.active-users.registered-at.zone, or the clock of the "
                    + "program that writes it")
        },
        Rule("old-rows") { facts in
            guard facts.isReplica else { return nil }
            return Finding(
                .medium, "\(facts.plan.settings.store.location)",
                "a replica answers, so tokens are judged by rows that may lack the latest marks "
                    + "and registrations",
                cure: "write the primary's address into store.url, or look at the "
                    + "replica's lag first")
        },
    ]

    // MARK: The provider

    private static let provider: [PreflightRule] = [
        Rule("provider-unreachable") { facts in
            guard let failure = facts.unreachable else { return nil }
            return Finding(
                .high, facts.gateway, failure.description,
                cure: facts.plan.app.provider == nil
                    ? "check \(facts.key).binary and the network"
                    : "check \(facts.key).provider, the network and the certificate")
        },
        Rule("probe-credential") { facts in
            guard case .success(let answer) = facts.probe, case .credentialFault = answer.meaning
            else { return nil }
            return Finding(
                .high, facts.gateway, answer.ofProbe,
                cure: "correct \(facts.key).certificate or \(facts.key).token-key, and this "
                    + "host's clock")
        },
        Rule("probe-topic") { facts in
            guard case .success(let answer) = facts.probe, answer.meaning == .configurationFault
            else { return nil }
            return Finding(
                .high, facts.gateway, "\(answer.ofProbe) for the topic \(facts.plan.app.topic)",
                cure: "correct \(facts.key).topic, or use a credential for this topic")
        },
        Rule("probe-inconclusive") { facts in
            let sentence: String
            switch facts.probe {
            case nil: return nil
            case .failure(let missing): sentence = missing.description
            case .success(let answer):
                switch answer.meaning {
                case .suspectToken, .credentialFault, .configurationFault: return nil
                default: sentence = answer.ofProbe
                }
            }
            return Finding(
                .medium, facts.gateway, sentence,
                cure: "run again; a gateway that accepts any token proves nothing")
        },
    ]

    // MARK: The ignore file

    /// What `IgnoreList` finds in itself, once the other findings are known.
    private static let ignoring: [PreflightRule] = [
        Rule("ignore-without-reason"),
        Rule("ignore-without-date"),
        Rule("ignore-past-date"),
        Rule("ignore-unused"),
    ]
}

extension PreflightFacts {
    /// Why the certificate is not valid now; nil where it is, and where it cannot be read.
    var invalidity: IdentityFailure? {
        guard case .success(let identity) = identity else { return nil }
        do throws(IdentityFailure) {
            try identity.checkValidity(at: now.rawValue / 1_000)
            return nil
        } catch {
            return error
        }
    }
}

extension ProviderAnswer {
    /// The answer to a made-up token, in words.
    fileprivate var ofProbe: String {
        "the provider answered \(status)\(body.reason.map { " \($0)" } ?? "") to a made-up token"
    }
}

extension IgnoreList {
    /// The findings with the decisions about them, and findings on entries that do not count.
    func applied(to findings: [Finding], at now: EpochMilliseconds) -> [Finding] {
        var result = findings
        for entry in entries {
            guard let reason = entry.reason, let until = entry.until, let ends = entry.ends,
                now.rawValue < ends * 1_000
            else {
                result.append(Self.fault(of: entry))
                continue
            }
            let hits = findings.indices.filter {
                PreflightRules.ignorable.contains(entry.rule) && findings[$0].rule == entry.rule
                    && fnmatch(entry.object, findings[$0].object, 0) == 0
            }
            for index in hits { result[index].ignored = .init(reason: reason, until: until) }
            if hits.isEmpty {
                result.append(
                    Finding(
                        .note, entry.place,
                        "no finding of \(entry.rule) about \(entry.object) to ignore",
                        cure: "remove the entry, unless the finding comes and goes",
                        rule: "ignore-unused"))
            }
        }
        return result
    }

    /// Why an entry has no effect.
    private static func fault(of entry: Entry) -> Finding {
        let (rule, problem, cure) =
            if entry.reason == nil {
                (
                    "ignore-without-reason", "has no reason",
                    "say why in reason, or remove the entry"
                )
            } else if let until = entry.until {
                (
                    "ignore-past-date", "ended with \(until)",
                    "cure the finding, or decide again with a later day"
                )
            } else {
                (
                    "ignore-without-date", "has no last day",
                    "give a day in until, or remove the entry"
                )
            }
        return Finding(
            .medium, entry.place, "the entry for \(entry.rule) \(problem), so it has no effect",
            cure: cure, rule: rule)
    }
}
