import APNsProtocol

// The one question: does this evidence make this row stale?
//
// Evidence says "dead at T" by APNs' clock; the row says "registered at R" by the provider's. A
// token can come back: the user installs the app again and gets the same token. So evidence counts
// only if it is not older than the registration:
//
//   R > T              the device came back after the signal: keep, for marks and deletes alike.
//   R < T - skew       certainly stale.
//   T - skew <= R <= T the order is unknown: clocks differ, and a feedback time covers a whole
//                      second. A mark is reversible and a later registration overrides it, so it is
//                      set; a delete is not, so the row stays.
//   R unknown          as above; deleted only when the settings say so in so many words.
//
// A mark carries T itself. A row is stale iff it has a mark and no later registration, so nobody
// has to clear marks: a re-registration revives the row by being later. Evidence later than an
// existing mark moves the mark forward, so that any order of the same evidence leaves the same row.
//
// Sources: Apple, Binary Provider API (archived), "The Feedback Service": use the time to check
// that the device has not re-registered since; Apple, Communicating with APNs: stop until the
// device registers with a later timestamp.

/// What a row of the token table tells about one token.
package struct RegisteredToken: Hashable, Sendable {
    /// When the device last registered this token; nil where the table does not say.
    package let registeredAt: EpochMilliseconds?
    /// When the token was said to be dead, if the row carries a mark.
    package let invalidatedAt: EpochMilliseconds?

    /// Takes down a row's two times.
    package init(registeredAt: EpochMilliseconds?, invalidatedAt: EpochMilliseconds?) {
        self.registeredAt = registeredAt
        self.invalidatedAt = invalidatedAt
    }

    /// Whether the row carries a mark that no later registration has overridden.
    package var isStale: Bool {
        guard let invalidatedAt else { return false }
        guard let registeredAt else { return true }
        return registeredAt <= invalidatedAt
    }
}

/// How a registration stands to a piece of evidence.
package enum RegistrationOrder: Hashable, Sendable {
    /// Certainly before it.
    case before
    /// At the same time or within the skew: nobody can tell.
    case undecided
    /// After it.
    case after
    /// The table has no registration time.
    case unknown
}

/// What is done to rows found stale, and how sure one must be.
package struct RemovalPolicy: Hashable, Sendable {
    /// What a stale row is subjected to.
    package enum Action: String, Hashable, Sendable, CaseIterable {
        /// The row keeps standing and carries the time of the evidence. Reversible.
        case mark
        /// The row is removed; its content goes to the change ledger.
        case delete
    }

    /// The difference between honest clocks, and the second a feedback time stands for.
    package static let usualSkew: Int64 = 2_000

    /// What is done to stale rows.
    package let action: Action
    /// Whether rows without a registration time may be deleted.
    package let deletesWithoutRegistrationTime: Bool
    /// Milliseconds before the evidence within which the order is taken as unknown.
    package let skew: Int64
    /// Milliseconds for which a row that is to be removed stays marked before; nil: it is removed at
    /// once.
    package let deletesAfter: Int64?

    /// States a policy; the usual one marks.
    package init(
        action: Action = .mark, deletesWithoutRegistrationTime: Bool = false,
        skew: Int64 = RemovalPolicy.usualSkew, deletesAfter: Int64? = nil
    ) {
        self.action = action
        self.deletesWithoutRegistrationTime = deletesWithoutRegistrationTime
        self.skew = skew
        self.deletesAfter = deletesAfter
    }

    /// Whether evidence removes rows itself, and does not only mark them.
    package var deletesAtOnce: Bool { action == .delete && deletesAfter == nil }

    /// How a registration stands to evidence of time `time`.
    package func order(
        of registeredAt: EpochMilliseconds?, to time: EpochMilliseconds
    ) -> RegistrationOrder {
        guard let registeredAt else { return .unknown }
        if registeredAt > time { return .after }
        return registeredAt < time.advanced(by: -skew) ? .before : .undecided
    }

    /// The verdict on one row.
    package func verdict(on row: RegisteredToken, dead time: EpochMilliseconds) -> Verdict {
        let order = order(of: row.registeredAt, to: time)
        if order == .after { return .newer }
        if deletesAtOnce && isSure(order) { return .delete }
        guard row.isStale, let mark = row.invalidatedAt else { return .mark }
        return mark >= time ? .already : .advance
    }

    /// Whether a marked row's time is up: the mark is old enough, and a row as sure to be stale as
    /// one that is removed at once.
    package func isDue(_ row: RegisteredToken, at now: EpochMilliseconds) -> Bool {
        guard action == .delete, let deletesAfter, let mark = row.invalidatedAt,
            mark <= now.advanced(by: -deletesAfter)
        else { return false }
        return isSure(order(of: row.registeredAt, to: mark))
    }

    private func isSure(_ order: RegistrationOrder) -> Bool {
        order == .before || order == .unknown && deletesWithoutRegistrationTime
    }
}

/// What evidence means for one row.
package enum Verdict: Hashable, Sendable, CaseIterable {
    /// Stale: set the mark to the time of the evidence.
    case mark
    /// Stale, and sure enough to remove the row.
    case delete
    /// Stale already, by earlier evidence: move the mark forward. Counts as already invalid.
    case advance
    /// Stale already by this or later evidence: nothing to do.
    case already
    /// Registered again after the evidence: keep.
    case newer

    /// Whether the row has to be changed.
    package var changesRow: Bool { self == .mark || self == .delete || self == .advance }

    /// Whether this verdict makes a living row invalid.
    package var invalidates: Bool { self == .mark || self == .delete }
}
