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
// keeps its number of attempts: an outage of hours closes no row.

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

        init(
            _ result: Outcome, evidence: TokenAnswer? = nil, isSuspect: Bool = false,
            refusal: Refusal? = nil, stop: RunFailure? = nil
        ) {
            (self.result, self.evidence) = (result, evidence)
            (self.isSuspect, self.refusal, self.stop) = (isSuspect, refusal, stop)
        }
    }

    /// A refusal that is not about the row.
    struct Refusal: Hashable, Sendable {
        /// The row's result where the gateway serves no other row either.
        let postponed: Outcome
        /// Whether it blames the credential.
        var isOfCredential = false
        /// The refusal in a few words.
        var reason: String { postponed.reason ?? "" }
    }

    /// A token called dead, bad or good.
    struct TokenAnswer: Hashable, Sendable {
        let source: EvidenceSource
        let time: EpochMilliseconds
    }

    private let app: Partition
    private let resendUnknown: Bool
    private(set) var detector = MismatchDetector()

    init(_ app: Partition, resendUnknown: Bool) {
        self.app = app
        self.resendUnknown = resendUnknown
    }

    /// Judges one outcome of a row that had `attempts` attempts before and was handed over at
    /// `handedAt`.
    mutating func judge(
        _ kind: ProviderOutcome.Kind, attempts: Int, handedAt: EpochMilliseconds
    ) -> Judgement {
        switch kind {
        case .answered(let answer): judge(answer, attempts, handedAt)
        case .accepted: counted(.known, .sent)
        case .refusedBinary(let status): judge(status, attempts, handedAt)
        // The gateway has not seen it.
        case .unsendable(let reason): Judgement(.failed(reason: reason))
        case .unknown(let why), .garbled(let why):
            Judgement(resendUnknown ? Self.later(60, why, attempts) : .unknown(reason: why))
        case .refused:
            // Sent again at once, it would be refused again, and a queue of such rows would never
            // end.
            Self.refusal(60 << min(attempts, 6), "stream refused", attempts)
        case .untouched: Judgement(.returned)
        }
    }

    /// The result of a suspect's row with `attempts` attempts before, when there are too few answers
    /// to tell a bad token from a wrong setting. The row waits one hour to sixteen hours.
    static func deferral(reason: String, attempts: Int) -> Outcome {
        later(3_600 << min(attempts, 4), reason, attempts)
    }

    private mutating func judge(
        _ answer: ProviderAnswer, _ attempts: Int, _ handedAt: EpochMilliseconds
    ) -> Judgement {
        let reason = answer.body.reason?.description ?? "HTTP \(answer.status)"
        let failed = Outcome.failed(reason: reason)
        switch answer.meaning {
        case .accepted:
            return counted(.known, .sent, TokenAnswer(source: .accepted, time: handedAt))
        case .gone(let time):
            // Without a usable time from APNs, the token was inactive at the time of the answer. The time
            // of handing over is a little earlier, so that a device that registered in between keeps its
            // row.
            let evidence = TokenAnswer(
                source: EvidenceSource(gone: answer.body.reason), time: time ?? handedAt)
            return counted(.known, .gone(reason: reason), evidence)
        case .suspectToken:
            let source = EvidenceSource(suspecting: answer.body.reason)
            return counted(
                .bad, failed, TokenAnswer(source: source, time: handedAt), isSuspect: true)
        case .requestFault, .notUnderstood: return counted(.refused, failed)
        case .configurationFault:
            return stop(
                "APNs answered \(reason); correct apps[].topic or the certificate, then send again")
        case .credentialFault:
            return stop(
                "APNs answered \(reason); correct the certificate or token key, and its environment, then "
                    + "send again")
        // Without Apple's word nobody knows whether it is about the token.
        case .throttled(let after) where answer.body.reason != .tooManyRequests:
            return Self.refusal(Int(after ?? 60) << min(attempts, 6), reason, attempts)
        case .throttled(let after):
            return Judgement(Self.later(Int(after ?? 60) << min(attempts, 6), reason, attempts))
        case .keepProviderToken(let after):
            return Self.refusal(Int(after ?? 1_200), reason, attempts, isOfCredential: true)
        case .serverTrouble(let after):
            // Apple, "Handling notification responses": 15 minutes, then back off.
            let wait = after.map(Int.init) ?? 900 << min(attempts, 4)
            return Self.refusal(wait, reason, attempts)
        case .reconnect: return Self.refusal(60, reason, attempts)
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
        case .gateway: return Self.refusal(60 << min(attempts, 6), reason, attempts)
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
                    "\($0); no row was changed for it; check that host, certificate or key, and topic "
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
