import APNsProtocol

// The decision whether evidence makes a row stale.
//
// Evidence has a time T by APNs' clock, at which the token was dead. The row has a time R of its
// registration by the provider's clock. A token can come back: the user installs the app again and
// gets the same token. So evidence counts only if it is not older than the registration:
//
//   R > T              the device came back after the signal: keep, for marks and deletes alike.
//   R < T - skew       certainly stale.
//   T - skew <= R <= T the order is unknown: clocks differ, and a feedback time covers a whole
//                      second. A mark is reversible and a later registration overrides it, so it is
//                      set; a delete is not reversible, so the row stays.
//   R unknown          as above; deleted only when the settings explicitly allow it.
//
// Where a row itself says in a column of two values whether it is dead, that column decides whether
// the row is stale, and the mark in pushsweep_invalid only says since when.
//
// A mark carries T itself. A row is stale if and only if it has a mark and no later registration.
// Marks need no clearing: a re-registration revives the row because it is later. Evidence later
// than an existing mark moves the mark forward, so the same evidence in any order leaves the same
// row.
//
// Sources: Apple, Binary Provider API (archived), "The Feedback Service": use the time to check
// that the device has not re-registered since; Apple, Communicating with APNs: stop until the
// device registers with a later timestamp.

/// The two times of a token table's row that decide whether it is stale.
package struct RegisteredToken: Hashable, Sendable {
    /// When the device last registered this token; nil where the table has no such time.
    package let registeredAt: EpochMilliseconds?
    /// The time of the mark: when the token was found dead. Nil for a row without a mark.
    package let invalidatedAt: EpochMilliseconds?
    /// Whether a column of two values in the row says that it is not used any more; nil without such
    /// a column, where the times decide.
    package let isDead: Bool?

    /// Makes the state of a row from its two times and its column of two values.
    package init(
        registeredAt: EpochMilliseconds?, invalidatedAt: EpochMilliseconds?, isDead: Bool? = nil
    ) {
        self.registeredAt = registeredAt
        self.invalidatedAt = invalidatedAt
        self.isDead = isDead
    }

    /// Whether the row itself says that it is dead; else, whether it carries a mark that no later
    /// registration has overridden.
    package var isStale: Bool {
        if let isDead { return isDead }
        guard let invalidatedAt else { return false }
        guard let registeredAt else { return true }
        return registeredAt <= invalidatedAt
    }
}

/// The order of a registration and a piece of evidence.
package enum RegistrationOrder: Hashable, Sendable {
    /// The registration is certainly before the evidence.
    case before
    /// Both have the same time or differ by less than the skew, so the order is unknown.
    case undecided
    /// The registration is after the evidence.
    case after
    /// The table has no registration time.
    case unknown
}

/// The action on stale rows, and the certainty it requires.
package struct RemovalPolicy: Hashable, Sendable {
    /// The action on a stale row.
    package enum Action: String, Hashable, Sendable, CaseIterable {
        /// The row stays and carries the time of the evidence. Reversible.
        case mark
        /// The row is deleted; the ledger keeps its content.
        case delete
    }

    /// The default skew in milliseconds: it covers the difference of synchronized clocks and the
    /// whole second of a feedback time.
    package static let usualSkew: Int64 = 2_000

    /// The action on stale rows.
    package var action: Action
    /// Whether rows without a registration time may be deleted.
    package var deletesWithoutRegistrationTime: Bool
    /// Milliseconds before the evidence within which the order counts as unknown.
    package var skew: Int64
    /// The milliseconds for which a row stays marked before it is deleted; nil: it is deleted at
    /// once.
    package var deletesAfter: Int64?
    /// Whether evidence counts only against rows that certainly registered before it.
    package var onlyBeyondDoubt = false

    /// Makes a policy; the default policy marks.
    package init(
        action: Action = .mark, deletesWithoutRegistrationTime: Bool = false,
        skew: Int64 = RemovalPolicy.usualSkew, deletesAfter: Int64? = nil
    ) {
        self.action = action
        self.deletesWithoutRegistrationTime = deletesWithoutRegistrationTime
        self.skew = skew
        self.deletesAfter = deletesAfter
    }

    /// Whether evidence deletes rows directly instead of marking them first.
    package var deletesAtOnce: Bool { action == .delete && deletesAfter == nil }

    /// The order of the registration `registeredAt` and evidence of time `time`.
    package func order(
        of registeredAt: EpochMilliseconds?, to time: EpochMilliseconds
    ) -> RegistrationOrder {
        guard let registeredAt else { return .unknown }
        if registeredAt > time { return .after }
        return registeredAt < time.advanced(by: -skew) ? .before : .undecided
    }

    /// The verdict of evidence with the time `time` on one row.
    package func verdict(on row: RegisteredToken, dead time: EpochMilliseconds) -> Verdict {
        let order = order(of: row.registeredAt, to: time)
        if order == .after || onlyBeyondDoubt && order != .before { return .newer }
        // The app set the row living again after evidence that was not older.
        if row.isDead == false, let mark = row.invalidatedAt, mark >= time { return .newer }
        if deletesAtOnce && isSure(order) { return .delete }
        guard row.isStale else { return .mark }
        // A row that the app itself set dead has no time.
        guard let mark = row.invalidatedAt else { return .already }
        return mark >= time ? .already : .advance
    }

    /// Whether a marked row is due for deletion at `now`: the mark is old enough, and the row is as
    /// certainly stale as one that is deleted at once.
    package func isDue(_ row: RegisteredToken, at now: EpochMilliseconds) -> Bool {
        guard action == .delete, row.isDead != false, let deletesAfter,
            let mark = row.invalidatedAt,
            mark <= now.advanced(by: -deletesAfter)
        else { return false }
        return isSure(order(of: row.registeredAt, to: mark))
    }

    private func isSure(_ order: RegistrationOrder) -> Bool {
        order == .before || order == .unknown && deletesWithoutRegistrationTime
    }
}

/// The consequence of evidence for one row.
package enum Verdict: Hashable, Sendable, CaseIterable {
    /// Stale: set the mark to the time of the evidence.
    case mark
    /// Stale, and sure enough to remove the row.
    case delete
    /// Already stale by earlier evidence: move the mark forward. Counts as already invalid.
    case advance
    /// Already stale by this or later evidence: no change.
    case already
    /// The token registered again after the evidence: keep the row.
    case newer

    /// Whether the verdict changes the row.
    package var changesRow: Bool { setsMark || self == .delete }

    /// Whether the verdict sets or moves a mark.
    package var setsMark: Bool { self == .mark || self == .advance }

    /// Whether the verdict takes a living row away from those of its app and environment.
    package var removes: Bool { self == .mark || self == .delete }
}
