// What an answer says about the token, the request, and everything else in the batch.
//
// One refused notification can mean one dead token or two million wrongly built requests, and the
// status alone does not tell which. The table below is the only place that decides; it is a
// function of the answer and of nothing else, so that it can be tested reason by reason. Two rules
// stand above it: only a 410 is evidence against a token, and what is not understood is evidence of
// nothing. An answer whose reason does not belong to its status contradicts itself and is not
// understood.
//
// Sources: Apple, "Handling notification responses from APNs"; Apple, "Communicating with APNs"
// (archived).

/// What to make of an answer.
package enum AnswerMeaning: Hashable, Sendable {
    /// APNs took the notification. It is not delivered yet, and the token not proven alive.
    case accepted
    /// The token is inactive: evidence, to be compared with the registration.
    case gone(GoneTime)
    /// BadDeviceToken or DeviceTokenNotForTopic: this token is wrong, or the host, or the topic.
    /// Counted, never a removal.
    case suspectToken
    /// This request is built wrongly; it fails again until that is fixed.
    case requestFault
    /// The settings are wrong: the topic. Every request of the batch fails alike: stop it.
    case configurationFault
    /// The certificate or provider token is wrong. Every request fails alike.
    case credentialFault(CredentialRemedy)
    /// Too many notifications to this token: send it later, after so many seconds if given.
    case throttled(after: UInt32?)
    /// The provider token was renewed too often: keep the present one for 20 minutes at least.
    /// The request was not processed and can be sent again.
    case keepProviderToken(after: UInt32?)
    /// APNs has trouble: wait 15 minutes or as long as it says, then again, with back-off.
    case serverTrouble(after: UInt32?)
    /// This connection is at its end: send again on another one.
    case reconnect
    /// None of the answers APNs gives: no verdict on anything.
    case notUnderstood
}

/// When a token was found inactive.
package enum GoneTime: Hashable, Sendable {
    /// APNs named the time: milliseconds since the Unix epoch.
    case confirmed(milliseconds: Int64)
    /// APNs named no usable time: the answer's receipt is the earliest time that is known. Mark with
    /// it; delete nothing that was registered after the request was sent.
    case atReceipt
}

/// What may cure a refused credential.
package enum CredentialRemedy: Hashable, Sendable {
    /// Nothing but another certificate, key or setting: stop the run.
    case none
    /// A new provider token, if this one is old enough for that; else this host's clock is wrong.
    case newToken
    /// A new connection: this one was opened under another key.
    case newConnection
}

extension ProviderAnswer {
    /// What this answer means.
    package var meaning: AnswerMeaning {
        // A reason that belongs to another status is no better than none.
        let reason = body.reason.flatMap { $0.status == status ? $0 : nil }
        let contradictsItself = body.reason?.status.map { $0 != status } ?? false
        switch status {
        case 200: return .accepted
        case 410:
            guard !contradictsItself else { return .notUnderstood }
            return .gone(goneTime(reason))
        case 400: return reason.map(Self.meaningOfBadRequest) ?? .notUnderstood
        case 403: return .credentialFault(Self.remedy(reason))
        case 404, 405, 413: return contradictsItself ? .notUnderstood : .requestFault
        case 429:
            return reason == .tooManyProviderTokenUpdates
                ? .keepProviderToken(after: retryAfter) : .throttled(after: retryAfter)
        case 503 where reason == .shutdown: return .reconnect
        case 500...599: return .serverTrouble(after: retryAfter)
        default: return .notUnderstood
        }
    }

    /// The time of a 410. One under a reason we do not know may be of another kind.
    private func goneTime(_ reason: ProviderReason?) -> GoneTime {
        guard reason != nil, case .milliseconds(let time) = body.timestamp else {
            return .atReceipt
        }
        return .confirmed(milliseconds: time)
    }

    private static func meaningOfBadRequest(_ reason: ProviderReason) -> AnswerMeaning {
        switch reason {
        case .badDeviceToken, .deviceTokenNotForTopic: .suspectToken
        case .badTopic, .missingTopic, .topicDisallowed: .configurationFault
        case .idleTimeout: .reconnect
        case .badCollapseID, .badExpirationDate, .badMessageID, .badPriority, .duplicateHeaders,
            .invalidPushType, .missingDeviceToken, .payloadEmpty:
            .requestFault
        default: .notUnderstood
        }
    }

    private static func remedy(_ reason: ProviderReason?) -> CredentialRemedy {
        switch reason {
        case .expiredProviderToken: .newToken
        case .unrelatedKeyIDInToken: .newConnection
        default: .none
        }
    }
}
