// Asks the other environment about tokens that APNs calls bad here. Each gets one background notification, which shows
// nothing and makes no sound: push type `background`, priority 5, expiration 0 so that APNs tries once and keeps
// nothing, and `content-available` alone (Apple, "Pushing background updates to your App"). It may wake the app once.
//
//   a made-up token there, a few of the tokens here: both have to be called bad
//   candidates of the search --a group--> sent --answers--> batches of the other environment, judged as any --next group
//
// Asked is only who is not known to have been accepted here, whose answer from there is not known, who did not register
// since, and whom no row there has: such a row's own notifications tell as much. Answers are reports like those of a sender. They are written after each
// group, so a run that is killed has lost the answers of one group at most, and asks about those again.
//
// The first request is about a made-up token, which no device has. A gateway that accepts it accepts all, and its answers
// prove nothing; one that answers 403 has not bothered anybody.
//
// Of a group nobody may know a token: then either the tokens are of another app, or credential or topic are wrong
// there. After 50 answers without one that knows its token the probe ends, as a sender does.

import APNsConnection
import APNsProtocol
import Database
import Dispatch
import EvidenceJournal
import Findings
import SecureTransport
import Settings
import TokenHygiene
import TokenTable

/// How much a probe asks.
struct ProbeTerms {
    /// How requests are sent.
    let sending: Settings.Send
    /// The most tokens of a run.
    var limit: Int
    /// Notifications per second; nil for no limit.
    var rate: Double?
    /// Whether tokens that are bad in both environments are asked about again.
    var again = false
}

/// Asks one environment about tokens of the other one.
struct EnvironmentProbe {
    /// Tokens of one group.
    static let group = 50
    /// How long answers are waited for once the run is told to stop.
    private static let grace = Duration.seconds(3)
    /// Tokens of the first group that are asked about here, too.
    private static let controls = 3
    /// Bytes of a token today.
    private static let tokenLength = 32
    /// What each device gets.
    private static let payload = Array(#"{"aps":{"content-available":1}}"#.utf8)
    private static let headers = NotificationHeaders(
        pushType: "background", priority: 5, expiration: 0)

    let pair: EnvironmentPair
    let evidence: EvidenceRun
    let terms: ProbeTerms
    private(set) var result = EnvironmentsReport.Probe()
    private var limiter: RateLimit?
    /// How far the clock of the database is ahead of this host's.
    private var clock = ClockDifference()
    /// The key of the next request.
    private var number: UInt64 = 0

    private var store: TokenTable { evidence.store }
    private var context: RunContext { evidence.context }

    init(_ pair: EnvironmentPair, _ evidence: EvidenceRun, _ terms: ProbeTerms) {
        (self.pair, self.evidence, self.terms) = (pair, evidence, terms)
        limiter = terms.rate.map { RateLimit(perSecond: $0) }
    }

    /// What APNs said of a token there.
    private struct Answer {
        let token: DeviceToken
        let source: EvidenceSource
        let time: EpochMilliseconds
    }

    /// Asks about the tokens, group by group.
    ///
    /// - Throws: why nothing more can be asked; what was answered is written.
    mutating func run() throws {
        var rest = try ProbeCandidates(pair, store, terms)
        var next = try rest.next(min(Self.group, terms.limit))
        // Who has nothing to ask needs no gateway.
        guard next != nil else { return }
        clock = try ClockDifference(to: store, context.now)
        try pair.requireAnswers(at: context.now())
        guard let other = pair.other,
            let target = ProviderTarget(other, terms.sending, context)
        else { return }
        let provider = try Provider(target.gateway.get())
        defer { provider.stop(abruptly: true) }
        defer { context.progress.clear() }
        try requireJudgement(of: provider)
        try requireBadHere(next ?? [])
        while let tokens = next {
            let (answers, sent, failure) = try ask(tokens, provider, of: other.partition)
            result.asked += sent
            result.unanswered += sent - answers.count
            for answer in answers { count(answer) }
            try write(answers, of: other.partition)
            context.progress.show(
                "asking about \(pair.partition) (tokens)", result.asked, of: terms.limit)
            if let failure { throw failure }
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            guard !answers.isEmpty else { throw Self.silence(of: provider, about: tokens.count) }
            if result.bad >= MismatchDetector.firstTest, result.accepted + result.dead == 0 {
                throw RunFailure(
                    .configuration, .send,
                    "asking \(other.partition) about tokens of \(pair.partition): it knows none of \(result.bad), so they "
                        + "are of another app, or its credential or topic is wrong; correct it, then run again with --again"
                )
            }
            next = try rest.next(min(Self.group, terms.limit - result.asked))
        }
    }

    /// Requires that the gateway takes our credential and calls a made-up token bad.
    private mutating func requireJudgement(of provider: Provider) throws {
        let bytes = (0..<Self.tokenLength).map { _ in UInt8.random(in: .min ... .max) }
        guard let token = DeviceToken(bytes) else { return }
        let theirs = pair.other?.partition ?? pair.partition
        let (answers, _, failure) = try ask([token], provider, of: theirs)
        if let failure { throw failure }
        guard !context.interrupt.isTripped else { throw RunFailure.stopped }
        guard let answer = answers.first else {
            throw RunFailure(
                .unreachable, .send,
                "asking \(provider.plan.name) about a made-up token: no answer about it; nobody was asked, run again later"
            )
        }
        guard answer.source.isSuspicion else {
            throw RunFailure(
                .configuration, .send,
                "asking \(provider.plan.name) about a made-up token: it knows it (\(answer.source.rawValue)), so its answers "
                    + "prove nothing; nobody was asked, name the gateway of APNs under provider")
        }
    }

    /// Asks about the first few tokens here as well, and requires that they are bad: else the reports that call them so come
    /// from another host or credential, or the gateways are exchanged, or one under two names. What they answer counts for
    /// nothing then, since it is not known whose answers they are.
    private mutating func requireBadHere(_ tokens: [DeviceToken]) throws {
        guard let target = ProviderTarget(pair.app, terms.sending, context) else { return }
        let provider = try Provider(target.gateway.get())
        defer { provider.stop(abruptly: true) }
        // Always the same ones, so that a run which fails here again and again asks no other devices.
        let some = Array(tokens.prefix(Self.controls))
        let (answers, _, failure) = try ask(some, provider, of: pair.partition)
        let known = answers.filter { !$0.source.isSuspicion }
        if let failure { throw failure }
        guard known.isEmpty else {
            throw RunFailure(
                .configuration, .send,
                "asking \(provider.plan.name) about \(answers.count.counting("token")) that are called bad: it knows "
                    + "\(known.count) of them after all, so the reports come from another host or credential, or the "
                    + "gateways of the environments are exchanged or one; nothing of it is kept, correct it and run again"
            )
        }
        guard !context.interrupt.isTripped else { throw RunFailure.stopped }
        guard answers.count == some.count else {
            throw Self.silence(of: provider, about: some.count - answers.count)
        }
    }

    private static func silence(of provider: Provider, about tokens: Int) -> RunFailure {
        RunFailure(
            .unreachable, .send,
            "asking \(provider.plan.name): it gave no answer about \(tokens.counting("token")); run again later"
        )
    }

    /// How many would be asked about.
    mutating func forecast() throws {
        var rest = try ProbeCandidates(pair, store, terms)
        while let tokens = try rest.next(min(Self.group, terms.limit - result.asked)) {
            result.asked += tokens.count
        }
        if result.asked > 0 { try pair.requireAnswers(at: context.now()) }
    }

    private mutating func count(_ answer: Answer) {
        if answer.source == .accepted {
            result.accepted += 1
        } else if answer.source.isSuspicion {
            result.bad += 1
        } else {
            result.dead += 1
        }
    }

    // MARK: Asking

    /// The time by the database's clock.
    private var now: EpochMilliseconds { context.now().advanced(by: clock.worthwhile) }

    /// Sends to tokens and waits for all answers. After a failure that concerns all of them, and where the run is told to
    /// stop, nothing more is sent, and what is under way is still heard. `sent` is the number of requests that the gateway
    /// may have processed.
    private mutating func ask(
        _ tokens: [DeviceToken], _ provider: Provider, of partition: Partition
    ) throws -> (answers: [Answer], sent: Int, failure: RunFailure?) {
        var waiting: [UInt64: (token: DeviceToken, sent: EpochMilliseconds)] = [:]
        var unsent = tokens[...]
        var answers: [Answer] = []
        var sent = 0
        var failure: RunFailure?
        var end: Deadline?
        func withdraw() {
            sent -= provider.withdraw().count { waiting.removeValue(forKey: $0.key) != nil }
        }
        while !unsent.isEmpty || !waiting.isEmpty {
            if end == nil, failure != nil || context.interrupt.isTripped {
                unsent = []
                withdraw()
                end = .in(context.interrupt.isTripped ? Self.grace : terms.sending.requestTimeout)
            }
            if let end, end.hasPassed { break }
            let instant = Double(DispatchTime.now().uptimeNanoseconds) / 1e9
            let some = unsent.prefix(limiter?.allowance(at: instant) ?? unsent.count)
            unsent = unsent.dropFirst(some.count)
            limiter?.spend(some.count)
            sent += some.count
            provider.submit(some.map { request(for: $0, &waiting) })
            let outcomes = provider.outcomes(within: 50)
            for outcome in outcomes {
                guard let asked = waiting.removeValue(forKey: outcome.key) else { continue }
                if !outcome.kind.mayBeProcessed { sent -= 1 }
                switch reading(outcome, of: asked.token, asked.sent, by: partition) {
                case .success(let answer): if let answer { answers.append(answer) }
                case .failure(let cause): failure = failure ?? cause
                }
            }
            if let cause = provider.failure {
                failure =
                    failure
                    ?? RunFailure(
                        cause.code == .configuration ? .configuration : .unreachable, .send,
                        "asking \(provider.plan.name): \(cause)")
                if outcomes.isEmpty { break }
            }
        }
        withdraw()
        return (answers, sent, failure)
    }

    private mutating func request(
        for token: DeviceToken,
        _ waiting: inout [UInt64: (token: DeviceToken, sent: EpochMilliseconds)]
    ) -> PushNotification {
        number += 1
        waiting[number] = (token, now)
        return PushNotification(
            key: number, token: token, id: .random(), headers: Self.headers, payload: Self.payload)
    }

    /// What an outcome says of a token; nil where it says nothing.
    private func reading(
        _ outcome: ProviderOutcome, of token: DeviceToken, _ sent: EpochMilliseconds,
        by partition: Partition
    ) -> Result<Answer?, RunFailure> {
        guard case .answered(let answer) = outcome.kind else { return .success(nil) }
        func refused(_ why: String) -> Result<Answer?, RunFailure> {
            .failure(
                RunFailure(
                    .configuration, .send,
                    "asking \(partition) about tokens of \(pair.partition): it answered \(answer.status) "
                        + "\(answer.words), \(why); nothing is known of the tokens by it"))
        }
        switch answer.meaning {
        case .accepted: return .success(Answer(token: token, source: .accepted, time: sent))
        case .gone(let death):
            return .success(
                Answer(
                    token: token, source: EvidenceSource(gone: answer.body.reason),
                    time: death.time(handedAt: sent, heardAt: now).time))
        case .suspectToken:
            return .success(
                Answer(
                    token: token, source: EvidenceSource(suspecting: answer.body.reason),
                    time: sent))
        case .credentialFault:
            return refused(
                "so the certificate, or the key with its key-id and team-id, is wrong there or of another environment; "
                    + "correct it under apps")
        case .configurationFault, .requestFault:
            return refused("so the topic is wrong there, or the credential may not send to it")
        case .throttled, .keepProviderToken, .serverTrouble, .reconnect, .unlisted,
            .refusedByGateway:
            return .success(nil)
        }
    }

    // MARK: Writing

    /// Writes answers as batches of the environment that gave them, all of them before one is judged.
    private func write(_ answers: [Answer], of other: Partition) throws {
        let bySource = Dictionary(grouping: answers, by: \.source)
        let batches = try bySource.sorted {
            ($0.key.turn, $0.key.rawValue) < ($1.key.turn, $1.key.rawValue)
        }.map { source, answers in
            let list = answers.sorted { $0.token < $1.token }.map {
                TokenEvidence(token: $0.token, time: $0.time)
            }
            return try evidence.insert(
                list,
                as: evidence.batch(
                    of: other, source, .probe, label: "a probe of \(pair.partition)",
                    reports: list.count),
                once: true)
        }
        for batch in batches {
            if let failure = evidence.judge(HeardBatch(batch)).failure { throw failure }
        }
    }
}

extension ProviderOutcome.Kind {
    /// Whether the gateway may have sent the notification to the device.
    fileprivate var mayBeProcessed: Bool {
        switch self {
        case .unsendable, .refused, .untouched: false
        case .answered, .accepted, .refusedBinary, .unknown, .garbled: true
        }
    }
}
