// The consequence of an answer for the token, the request, and the rest of the batch.
//
// One refused notification can mean one dead token or two million wrongly built requests, and the
// status alone does not tell them apart. The table below is the only place that says what an answer
// means; DeliveryRules says what follows for the row. It depends on the answer only, so that it can be
// tested reason by reason. Two rules have priority: only a
// 410 is evidence against a token, and an answer that is not understood is evidence of nothing. An
// answer whose reason does not belong to its status contradicts itself and is not understood.
//
// Sources: Apple, "Handling notification responses from APNs"; Apple, "Communicating with APNs"
// (archived).

/// The consequence of an answer.
package enum AnswerMeaning: Hashable, Sendable {
    /// APNs accepted the notification. It is not delivered yet, and the token is not proven alive.
    case accepted
    /// The token is inactive: evidence that is compared with the registration.
    case gone(GoneTime)
    /// BadDeviceToken or DeviceTokenNotForTopic: this token is wrong, or the host, or the topic.
    /// Counted, but never a reason to remove a row.
    case suspectToken
    /// This request is built wrongly and fails again until that is fixed.
    case requestFault
    /// The topic in the settings is wrong. Every request of the batch fails the same way: stop it.
    case configurationFault
    /// The certificate or provider token is wrong. Every request fails the same way.
    case credentialFault(CredentialRemedy)
    /// Too many notifications to this token: send it later, after this many seconds if given.
    case throttled(after: UInt32?)
    /// The provider token was renewed too often: keep the present one for at least 20 minutes. The
    /// request was not processed and can be sent again.
    case keepProviderToken(after: UInt32?)
    /// A server error of APNs: wait for the given seconds or 15 minutes, then try again with
    /// back-off.
    case serverTrouble(after: UInt32?)
    /// This connection is ending: send again on another one.
    case reconnect
    /// Not an answer that APNs gives: no conclusion about anything.
    case notUnderstood
}

/// The time at which a token was found inactive.
package enum GoneTime: Hashable, Sendable {
    /// APNs named the time: milliseconds since the Unix epoch.
    case confirmed(milliseconds: Int64)
    /// APNs named no usable time: the receipt of the answer is the earliest known time. Mark with
    /// it; delete no row that was registered after the request was sent.
    case atReceipt
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

extension ProviderAnswer {
    /// The consequence of this answer, by its status and reason.
    package var meaning: AnswerMeaning {
        // A reason that belongs to another status counts as no reason.
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

    /// The time of a 410. With an unknown reason the time may have another meaning.
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
