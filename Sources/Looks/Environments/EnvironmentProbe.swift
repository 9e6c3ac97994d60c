// Asks the other environment about tokens that APNs calls bad here. Each gets one background notification, which shows
// nothing and makes no sound: push type `background`, priority 5, expiration 0 so that APNs tries once and keeps
// nothing, and `content-available` alone (Apple, "Pushing background updates to your App"). It may wake the app once.
//
//   a made-up token there: has to be bad --> controls here: have to be bad, three of them
//   --> a group of candidates there --> a made-up token there: still bad --> answers beside the suspects --next group
//
// Asked is only who is not known to have been accepted here, whose answer from there is not known, who did not register
// since, and whom no row there has: such a row's own notifications tell as much. Answers stand beside the suspects and in
// no batch. They are written after each group, so a run that is killed has lost the answers of one group at most, and asks
// about those again.
//
// No device has a made-up token. A gateway that accepts one accepts all, and its answers prove nothing, also where it
// begins to do so in the middle; one that answers 403 at first has not bothered anybody.
//
// A control that is known here after all is cleared, and another one takes its place. Where most are known, the reports
// come from elsewhere or the gateways are exchanged. One that both addresses know shows that they are one gateway, since
// a token is of one environment.
//
// Of a group nobody may know a token: then either the tokens are of another app, or credential or topic are wrong
// there. After 50 answers without one that knows its token the probe ends, as a sender does.

import APNsConnection
import APNsProtocol
import Database
import Dispatch
import Findings
import Operations
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
    /// Tokens that have to be bad here, and the most that are asked about here to find them.
    private static let (controls, mostControls) = (3, 9)
    /// Bytes of a token today.
    private static let tokenLength = 32
    /// What each device gets.
    private static let payload = Array(#"{"aps":{"content-available":1}}"#.utf8)
    private static let headers = NotificationHeaders(
        pushType: "background", priority: 5, expiration: 0)

    let pair: EnvironmentPair
    private let store: TokenTable
    private let context: RunContext
    let terms: ProbeTerms
    private(set) var result = EnvironmentsReport.Probe()
    private var limiter: RateLimit?
    /// How far the clock of the database is ahead of this host's.
    private var clock = ClockDifference()
    /// The key of the next request.
    private var number: UInt64 = 0

    init(
        _ pair: EnvironmentPair, _ store: TokenTable, _ terms: ProbeTerms, _ context: RunContext
    ) {
        (self.pair, self.store, self.terms, self.context) = (pair, store, terms, context)
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
    /// - Throws: why nothing more can be asked; the answers of the groups before are written.
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
        let theirs = try Provider(target.gateway.get())
        defer { theirs.stop(abruptly: true) }
        defer { context.progress.clear() }
        try requireJudgement(of: theirs)
        next = try withoutKnown(next ?? [], theirs)
        while let tokens = next {
            try ask(group: tokens, theirs, of: other.partition)
            next = try rest.next(min(Self.group, terms.limit - result.asked))
        }
    }

    /// Asks about one group there and writes the answers.
    private mutating func ask(
        group tokens: [DeviceToken], _ theirs: Provider, of partition: Partition
    ) throws {
        guard !tokens.isEmpty, let there = pair.stored.elsewhere else { return }
        let (answers, sent, failure) = try ask(tokens, theirs, of: partition)
        result.asked += sent
        do {
            if let failure { throw failure }
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            try requireJudgement(of: theirs)
        } catch {
            result.unanswered += sent
            throw error
        }
        result.unanswered += sent - answers.count
        for answer in answers { count(answer) }
        try Suspects(store).note(
            answers.map { ($0.token, Suspect.Elsewhere(answer: $0.source, time: $0.time)) },
            elsewhere: there)
        context.progress.show(
            "asking about \(pair.partition) (tokens)", result.asked, of: terms.limit)
        guard !answers.isEmpty else { throw Self.silence(of: theirs, about: tokens.count) }
        if result.bad >= MismatchDetector.firstTest, result.accepted + result.dead == 0 {
            throw RunFailure(
                .configuration, .send,
                "asking \(partition) about tokens of \(pair.partition): it knows none of \(result.bad), so they "
                    + "are of another app, or its credential or topic is wrong; correct it, then run again with --again"
            )
        }
    }

    /// Requires that the gateway takes our credential and calls a made-up token bad.
    private mutating func requireJudgement(of provider: Provider) throws {
        let bytes = (0..<Self.tokenLength).map { _ in UInt8.random(in: .min ... .max) }
        guard let token = DeviceToken(bytes) else { return }
        let theirs = pair.other?.partition ?? pair.partition
        var answers: [Answer] = []
        // One lost answer would be worth a group.
        for _ in 0..<2 where answers.isEmpty {
            let heard = try ask([token], provider, of: theirs)
            if let failure = heard.failure { throw failure }
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            answers = heard.answers
        }
        let kept = "nothing of its last answers is kept"
        guard let answer = answers.first else {
            throw RunFailure(
                .unreachable, .send,
                "asking \(provider.plan.name) about a made-up token: no answer about it; \(kept), run again later"
            )
        }
        guard answer.source.isSuspicion else {
            throw RunFailure(
                .configuration, .send,
                "asking \(provider.plan.name) about a made-up token: it knows it (\(answer.source.rawValue)), so its answers "
                    + "prove nothing; \(kept), name the gateway of APNs under provider")
        }
    }

    /// Requires that the first few tokens are bad here, and returns the others without those that are known here after
    /// all: the suspicion of these is cleared. Always the same ones are asked, so that a run which fails here again and
    /// again asks no other devices.
    private mutating func withoutKnown(
        _ tokens: [DeviceToken], _ theirs: Provider
    ) throws -> [DeviceToken] {
        guard let target = ProviderTarget(pair.app, terms.sending, context) else { return tokens }
        let ours = try Provider(target.gateway.get())
        defer { ours.stop(abruptly: true) }
        var (bad, known) = (0, [DeviceToken: EpochMilliseconds]())
        var rest = tokens.prefix(Self.mostControls)
        while bad < Self.controls, !rest.isEmpty {
            let some = Array(rest.prefix(Self.controls - bad))
            rest = rest.dropFirst(some.count)
            let (answers, sent, failure) = try ask(some, ours, of: pair.partition)
            result.controls = (result.controls ?? 0) + sent
            if let failure { throw failure }
            guard !context.interrupt.isTripped else { throw RunFailure.stopped }
            guard answers.count == some.count else {
                throw Self.silence(of: ours, about: some.count - answers.count)
            }
            for answer in answers {
                if answer.source.isSuspicion { bad += 1 } else { known[answer.token] = answer.time }
            }
        }
        guard let control = known.keys.min() else { return tokens }
        try requireTwoGateways(by: control, ours, theirs)
        guard known.count < bad else {
            throw RunFailure(
                .configuration, .send,
                "asking \(ours.plan.name) about \((known.count + bad).counting("token")) that are called bad: it knows "
                    + "\(known.count) of them after all, so the reports come from another host or credential, or the "
                    + "gateways of the environments are exchanged; nothing of it is kept, correct it and run again"
            )
        }
        if let other = pair.stored.elsewhere {
            try Suspects(store).note([], elsewhere: other, accepted: known)
        }
        return tokens.filter { known[$0] == nil }
    }

    /// Requires that a token which is known here is bad there.
    private mutating func requireTwoGateways(
        by control: DeviceToken, _ ours: Provider, _ theirs: Provider
    ) throws {
        let (answers, _, failure) = try ask(
            [control], theirs, of: pair.other?.partition ?? pair.partition)
        if let failure { throw failure }
        guard !context.interrupt.isTripped else { throw RunFailure.stopped }
        guard let answer = answers.first else { throw Self.silence(of: theirs, about: 1) }
        guard answer.source.isSuspicion else {
            throw RunFailure(
                .configuration, .send,
                "asking \(ours.plan.name) and \(theirs.plan.name) about one token: both know it, and a token is of one "
                    + "environment, so they are one gateway; nothing of it is kept, correct provider.host of one of them"
            )
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
