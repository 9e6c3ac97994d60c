// Decides what follows from an outcome for the queue, for the token table and for the batch, without
// changing any of them. APNsProtocol defines the meaning of each answer. These rules add the facts of
// the row: the number of its attempts, the time at which it was handed over, and the settings about
// unknown outcomes.
//
// A BadDeviceToken waits, and so do statuses 8 and 128 of the binary interface. Only the mismatch detector can tell whether the
// token or our settings are wrong. Until the detector has decided, the row keeps its place. If it finds a
// mismatch, the row goes back to the queue unchanged, like every row that was not sent. A run that ends
// before the detector has looked decides by the same two rules over the answers it has. When these show
// that our settings are right, the result is final; else the row is tried again in a later run.
//
// A refusal that is about the gateway or the credential waits too, for an answer about another row. Where the
// gateway serves others, the row has had its attempt. Where it serves none, the row is tried again later and
// keeps its number of attempts: an outage of hours closes no row. What is no answer of APNs at all (a page of a
// proxy) never is an attempt.
//
// Ten attempts last an hour at the least: each wait is ours or, where the gateway asks for more, the gateway's.

import APNsConnection
import APNsProtocol
import PushQueue
import TokenHygiene

/// Judges the outcomes of one app's notifications.
struct DeliveryRules {
    /// Attempts after which a notification fails for good.
    static let mostAttempts = 10
    /// The longest wait in seconds, whatever a gateway asks for: a day.
    private static let longestWait = 86_400

    /// The consequences of one outcome.
    struct Judgement: Hashable, Sendable {
        /// The row's result in the queue; it waits for the detector when `isSuspect`.
        var result: Outcome
        /// What the answer says about the token. That it is bad counts only once the result is final, and that it is
        /// good only where it is suspected.
        var evidence: TokenAnswer?
        /// Whether the result is final only if the detector finds no mismatch.
        var isSuspect = false
        /// A refusal for the sake of the gateway or the credential: the result holds only if the gateway
        /// serves other rows.
        var refusal: Refusal?
        /// The reason to stop sending.
        var stop: RunFailure?
        /// What a person is told of the answer.
        var remark: Remark?

        init(
            _ result: Outcome, evidence: TokenAnswer? = nil, isSuspect: Bool = false,
            refusal: Refusal? = nil, stop: RunFailure? = nil, remark: Remark? = nil
        ) {
            (self.result, self.evidence) = (result, evidence)
            (self.isSuspect, self.refusal, self.stop) = (isSuspect, refusal, stop)
            self.remark = remark
        }
    }

    /// What is odd about an answer.
    enum Remark: Hashable, Sendable {
        /// Its reason is not on Apple's list.
        case unlisted(String)
        /// A 410 names a time that cannot be true, so the time of handing over counts.
        case impossibleTime
    }

    /// A refusal that is not about the row.
    struct Refusal: Hashable, Sendable {
        /// The row's result where the gateway serves no other row either.
        let postponed: Outcome
        /// Whether it blames the credential.
        var isOfCredential = false
        /// Whether it is no answer of APNs.
        var isForeign = false
        /// The refusal in a few words.
        var reason: String { postponed.reason ?? "" }
    }

    /// A token called dead, bad or good.
    struct TokenAnswer: Hashable, Sendable {
        let source: EvidenceSource
        let time: EpochMilliseconds
    }

    /// When a request was handed over and when its answer was heard, by the database's clock.
    struct AnsweredRequest: Hashable, Sendable {
        let handedAt, heardAt: EpochMilliseconds
    }

    private let app: Partition
    private let resendUnknown: Bool
    private(set) var detector = MismatchDetector()

    init(_ app: Partition, resendUnknown: Bool) {
        self.app = app
        self.resendUnknown = resendUnknown
    }

    /// Judges one outcome of a row that had `attempts` attempts before.
    mutating func judge(
        _ kind: ProviderOutcome.Kind, attempts: Int, _ request: AnsweredRequest
    ) -> Judgement {
        switch kind {
        case .answered(let answer): judge(answer, attempts, request)
        case .accepted: counted(.known, .sent)
        case .refusedBinary(let status): judge(status, attempts, request.handedAt)
        // The gateway has not seen it.
        case .unsendable(let reason): Judgement(.failed(reason: reason))
        case .unknown(let why), .garbled(let why):
            Judgement(
                resendUnknown
                    ? Self.later(Self.wait(60, attempts), why, attempts) : .unknown(reason: why))
        case .refused(let why):
            // Sent again at once, it would be refused again, and a queue of such rows would never
            // end.
            Self.refusal(Self.wait(60, attempts), why, attempts)
        case .untouched: Judgement(.returned)
        }
    }

    /// The result of a suspect's row with `attempts` attempts before, when there are too few answers
    /// to tell a bad token from a wrong setting. The row waits one hour to sixteen hours.
    static func deferral(reason: String, attempts: Int) -> Outcome {
        later(3_600 << min(attempts, 4), reason, attempts)
    }

    /// Seconds until the next attempt: `first`, doubled with each attempt up to four hours, and never less than the
    /// gateway asks for.
    private static func wait(_ first: Int, _ attempts: Int, asked: UInt32? = nil) -> Int {
        max(min(first << min(attempts, 6), 14_400), Int(asked ?? 0))
    }

    private mutating func judge(
        _ answer: ProviderAnswer, _ attempts: Int, _ request: AnsweredRequest
    ) -> Judgement {
        let reason = answer.words
        let failed = Outcome.failed(reason: reason)
        func wait(_ first: Int) -> Int { Self.wait(first, attempts, asked: answer.retryAfter) }
        switch answer.meaning {
        case .accepted:
            return counted(
                .known, .sent, TokenAnswer(source: .accepted, time: request.handedAt))
        case .gone(let death):
            let (time, isImpossible) = death.time(
                handedAt: request.handedAt, heardAt: request.heardAt)
            var judgement = counted(
                .known, .gone(reason: reason),
                TokenAnswer(source: EvidenceSource(gone: answer.body.reason), time: time))
            if isImpossible { judgement.remark = .impossibleTime }
            return judgement
        case .suspectToken:
            let source = EvidenceSource(suspecting: answer.body.reason)
            return counted(
                .bad, failed, TokenAnswer(source: source, time: request.handedAt), isSuspect: true)
        case .requestFault: return counted(.refused, failed)
        case .configurationFault:
            return stop(
                "APNs answered \(reason); correct apps[].topic or the certificate, then send again")
        case .credentialFault:
            return stop(
                "APNs answered \(reason); correct the certificate or token key, and its environment, then "
                    + "send again")
        case .throttled: return Judgement(Self.later(wait(60), reason, attempts))
        case .unlisted:
            return Judgement(
                Self.later(wait(answer.status < 500 ? 60 : 900), reason, attempts),
                remark: .unlisted(reason))
        case .keepProviderToken:
            // Not doubled: after 20 minutes the next one is taken.
            let least = max(1_200, Int(answer.retryAfter ?? 0))
            return Self.refusal(least, reason, attempts, isOfCredential: true)
        // Apple, "Handling notification responses": 15 minutes, then back off.
        case .serverTrouble: return Self.refusal(wait(900), reason, attempts)
        case .reconnect: return Self.refusal(wait(60), reason, attempts)
        case .refusedByGateway:
            let least = max(answer.status < 500 ? 60 : 900, Int(answer.retryAfter ?? 0))
            let postponed = Outcome.postponed(
                seconds: min(least, Self.longestWait), reason: reason)
            return Judgement(
                postponed, refusal: Refusal(postponed: postponed, isForeign: true))
        }
    }

    /// A status of the binary interface never removes a token: it has no time, and a token of the other
    /// environment has the same status. Where the frame could not be parsed, the fault may be the
    /// setting of the command, so that the row waits for the detector too.
    private mutating func judge(
        _ status: BinaryStatus, _ attempts: Int, _ handedAt: EpochMilliseconds
    ) -> Judgement {
        let reason = status.description
        let failed = Outcome.failed(reason: reason)
        switch status.subject {
        case .token where status == .invalidToken:
            return counted(
                .bad, failed, TokenAnswer(source: .badDeviceToken, time: handedAt),
                isSuspect: true)
        case .token, .payload: return counted(.refused, failed)
        case .frame: return counted(.refused, failed, isSuspect: true)
        case .topic:
            return stop(
                "the gateway answered \(reason); name the certificate of this app in apps[].certificate, "
                    + "then send again")
        case .gateway: return Self.refusal(Self.wait(60, attempts), reason, attempts)
        }
    }

    private mutating func counted(
        _ acceptance: TokenAcceptance, _ result: Outcome, _ evidence: TokenAnswer? = nil,
        isSuspect: Bool = false
    ) -> Judgement {
        let suspicion = detector.record(acceptance)
        return Judgement(
            result, evidence: evidence, isSuspect: isSuspect,
            stop: suspicion.flatMap {
                stop(
                    "\($0); no token was marked for it; check that host, certificate or key, and topic "
                        + "belong to the environment of these tokens"
                ).stop
            })
    }

    /// The row goes back, and sending stops.
    private func stop(_ sentence: String) -> Judgement {
        Judgement(
            .returned,
            stop: RunFailure(.configuration, .send, "sending for \(app): \(sentence)"))
    }

    private static func refusal(
        _ seconds: Int, _ reason: String, _ attempts: Int, isOfCredential: Bool = false
    ) -> Judgement {
        let refusal = Refusal(
            postponed: .postponed(seconds: min(seconds, longestWait), reason: reason),
            isOfCredential: isOfCredential)
        return Judgement(later(seconds, reason, attempts), refusal: refusal)
    }

    private static func later(
        _ seconds: Int, _ reason: String, _ attempts: Int
    ) -> Outcome {
        attempts >= mostAttempts - 1
            ? .failed(reason: reason) : .retry(seconds: min(seconds, longestWait), reason: reason)
    }
}

extension MismatchDetector {
    /// Whether the answers of a run that ended before the detector's first test show that our settings
    /// are right: APNs knew a token, and the share of bad tokens is not too high for a healthy
    /// population.
    var vouchesForSettings: Bool { known > 0 && !isMismatchLikely }

    /// Whether so many of the answers so far call tokens bad that chance does not explain it.
    var isMismatchLikely: Bool { Self.leastShare(of: bad, in: answers) > Self.tolerance }
}
