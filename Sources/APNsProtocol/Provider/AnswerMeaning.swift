// The consequence of an answer for the token, the request, and the rest of the batch.
//
// One refused notification can mean one dead token or two million wrongly built requests, and the
// status alone does not tell them apart. Nor does it tell who answers: a proxy, a load balancer or a
// captive network in front of APNs has statuses of its own, and a page of theirs under 410 must not mark a
// device. So an answer speaks of its row only in Apple's words:
//
//   a reason of Apple's list, under its own status   its row in the table below
//   a JSON object with another reason                Apple adds some. Its row has had an attempt, nothing else
//                                                    follows, and a person is told of it by name.
//   200 without a body of somebody else              accepted
//   everything else                                  the gateway refused: it says nothing about any row
//
// The table is the only place that says what an answer means; DeliveryRules says what follows for the row.
// It depends on the answer only, so that it can be tested reason by reason. Only a 410 is evidence against a
// token. Its time is compared with the request (`DeathTime`).
//
// Sources: Apple, "Handling notification responses from APNs"; Apple, "Communicating with APNs"
// (archived).

/// The consequence of an answer.
package enum AnswerMeaning: Hashable, Sendable {
    /// APNs accepted the notification. It is not delivered yet, and the token is not proven alive.
    case accepted
    /// The token is inactive since that time: evidence that is compared with the registration.
    case gone(DeathTime)
    /// BadDeviceToken or DeviceTokenNotForTopic: this token is wrong, or the host, or the topic.
    /// Counted, but never a reason to remove a row.
    case suspectToken
    /// This request is built wrongly and fails again until that is fixed.
    case requestFault
    /// The topic in the settings is wrong. Every request of the batch fails the same way: stop it.
    case configurationFault
    /// The certificate or provider token is wrong. Every request fails the same way.
    case credentialFault(CredentialRemedy)
    /// Too many notifications to this token: send it later.
    case throttled
    /// The provider token was renewed too often: keep the present one for at least 20 minutes. The
    /// request was not processed and can be sent again.
    case keepProviderToken
    /// A server error of APNs: wait 15 minutes, then try again with back-off.
    case serverTrouble
    /// This connection is ending: send again on another one.
    case reconnect
    /// A reason that is not on Apple's list: no conclusion about anything but that this request was refused.
    case unlisted
    /// No answer of APNs. The gateway refused the request, and nothing is known about its row.
    case refusedByGateway
}

/// The possible remedy for a refused credential.
package enum CredentialRemedy: Hashable, Sendable {
    /// None but another certificate, key or setting: stop the run.
    case none
    /// A new provider token, if this one is old enough for that; else this host's clock is wrong.
    case newToken
    /// A new connection: this one was opened under another key.
    case newConnection
}

/// The time from which a 410 calls its token dead, as the answer names it.
package struct DeathTime: Hashable, Sendable {
    /// Milliseconds since the Unix epoch; nil where the answer names none of that unit.
    package let named: EpochMilliseconds?
    /// Whether the answer names a time, of whatever form.
    package let isNamed: Bool

    package init(named: EpochMilliseconds?, isNamed: Bool? = nil) {
        (self.named, self.isNamed) = (named, isNamed ?? (named != nil))
    }

    /// The time that counts, and whether the one that the answer names cannot be true.
    ///
    /// Without a usable time from APNs the token was inactive when the answer came. The time of handing over is a
    /// little earlier, so that a device that registered in between keeps its row.
    ///
    /// - Parameters:
    ///   - handedAt: when the request was handed to the connections, by the database's clock.
    ///   - heardAt: when its answer was heard, by the same clock; it bounds what can be true (`EvidenceBounds`).
    package func time(
        handedAt: EpochMilliseconds, heardAt: EpochMilliseconds
    ) -> (time: EpochMilliseconds, isImpossible: Bool) {
        guard let named, EvidenceBounds(now: heardAt).rejection(of: named) == nil else {
            return (handedAt, isNamed)
        }
        return (named, false)
    }
}

extension ProviderAnswer {
    /// The consequence of this answer, by its status and reason.
    package var meaning: AnswerMeaning {
        if status == 200 { return isForeign || body.reason != nil ? .refusedByGateway : .accepted }
        guard let reason = body.reason, !reason.description.isEmpty else {
            return .refusedByGateway
        }
        guard let owner = reason.status else { return .unlisted }
        guard owner == status else { return .refusedByGateway }
        switch status {
        case 410:
            return .gone(
                DeathTime(
                    named: body.timestamp.map(EpochMilliseconds.init), isNamed: body.namesTime))
        case 400: return Self.meaningOfBadRequest(reason)
        case 403: return .credentialFault(Self.remedy(reason))
        case 429: return reason == .tooManyProviderTokenUpdates ? .keepProviderToken : .throttled
        case 503 where reason == .shutdown: return .reconnect
        case 500, 503: return .serverTrouble
        // 404, 405, 413
        default: return .requestFault
        }
    }

    /// The answer in a few words: APNs' reason, or the status of what is no answer of APNs.
    package var words: String {
        switch meaning {
        case .refusedByGateway: "HTTP \(status) without an answer of APNs"
        default: body.reason?.description ?? "HTTP \(status)"
        }
    }

    private static func meaningOfBadRequest(_ reason: ProviderReason) -> AnswerMeaning {
        switch reason {
        case .badDeviceToken, .deviceTokenNotForTopic: .suspectToken
        case .badTopic, .missingTopic, .topicDisallowed: .configurationFault
        case .idleTimeout: .reconnect
        default: .requestFault
        }
    }

    private static func remedy(_ reason: ProviderReason) -> CredentialRemedy {
        switch reason {
        case .expiredProviderToken: .newToken
        case .unrelatedKeyIDInToken: .newConnection
        default: .none
        }
    }
}
