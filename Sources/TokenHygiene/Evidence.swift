import APNsProtocol

/// The app and the environment of APNs that a token belongs to. A token has no meaning outside its
/// partition: tokens of production and sandbox are not interchangeable, and each belongs to one
/// topic (Apple, Binary Provider API). Evidence changes rows of its own partition only.
package struct Partition: Hashable, Sendable, CustomStringConvertible {
    /// The app's name in the settings.
    package let app: String
    /// `production` or `sandbox`.
    package let environment: String

    /// Makes the partition of an app's name in the settings and an environment, without checking
    /// them.
    package init(app: String, environment: String) {
        self.app = app
        self.environment = environment
    }

    /// Whether the bytes of both are the same: an app that only looks the same to Swift is another one.
    package static func == (one: Partition, other: Partition) -> Bool {
        one.app.utf8.elementsEqual(other.app.utf8)
            && one.environment.utf8.elementsEqual(other.environment.utf8)
    }

    /// The partition of what names no app or none of the settings; no app has its environment.
    package static let noApp = Partition(app: "none", environment: "none")

    /// The same app in the other environment of APNs; nil for what is of none of the two.
    package var elsewhere: Partition? {
        switch environment {
        case "production": Partition(app: app, environment: "sandbox")
        case "sandbox": Partition(app: app, environment: "production")
        default: nil
        }
    }

    /// `app/environment`, as in messages and reports, or `no app`.
    package var description: String {
        environment == Self.noApp.environment ? "no app" : "\(app)/\(environment)"
    }
}

/// The source of a statement about a token. The raw value of one that calls it dead is stored with the mark.
package enum EvidenceSource: String, Hashable, Sendable, CaseIterable {
    /// A tuple of the feedback service, port 2196.
    case feedback
    /// HTTP/2 answer 410 with reason Unregistered.
    case unregistered = "Unregistered"
    /// HTTP/2 answer 410 with reason ExpiredToken.
    case expiredToken = "ExpiredToken"
    /// HTTP/2 answer 400 with reason BadDeviceToken: the token is wrong, or its environment. It marks nothing.
    case badDeviceToken = "BadDeviceToken"
    /// HTTP/2 answer 400 with reason DeviceTokenNotForTopic: the token is of another app. It marks nothing.
    case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
    /// HTTP/2 answer 200 about a token that APNs called bad before: it is of this app and environment. It marks
    /// nothing and clears the suspicion.
    case accepted = "Accepted"
    /// The device registered another token later, as another sender reports. APNs has said nothing, and no answer of its
    /// gateways has this source.
    case superseded = "Superseded"
    /// The grace period of a marked row has ended (`policy.delete-after`): the row goes. It says nothing that APNs said.
    case grace
    /// Reports of other senders that cannot be used. Their batch is quarantined whole and marks
    /// nothing.
    case unusable

    /// The source of a 410 with this reason. A reason outside Apple's list says no more than that the token
    /// is gone.
    package init(gone reason: ProviderReason?) {
        let own = reason.flatMap { $0.status == 410 ? Self(rawValue: $0.description) : nil }
        self = own ?? .unregistered
    }

    /// The source of a report of another sender with this reason that calls a token dead.
    package init(reported reason: ProviderReason?) {
        let isSuperseded =
            reason?.description.utf8.elementsEqual(Self.superseded.rawValue.utf8) ?? false
        self = isSuperseded ? .superseded : Self(gone: reason)
    }

    /// The source of a 400 that calls a token bad.
    package init(suspecting reason: ProviderReason?) {
        self = reason == .deviceTokenNotForTopic ? .deviceTokenNotForTopic : .badDeviceToken
    }

    /// Whether it only makes a token suspect, which never changes a row.
    package var isSuspicion: Bool { self == .badDeviceToken || self == .deviceTokenNotForTopic }

    /// Whether it makes a token suspect or clears it, and changes no row.
    package var isAboutSuspects: Bool { isSuspicion || self == .accepted }

    /// Which comes first of what is heard at once: an acceptance finds what the others made suspect.
    package var turn: Int { self == .accepted ? 1 : 0 }

    /// What APNs says of a token that is dead.
    package static let deaths: [EvidenceSource] = [.feedback, .unregistered, .expiredToken]

    /// The sources of marks.
    package static var ofMarks: [EvidenceSource] { deaths + [.superseded] }
}

/// The combined evidence about one token from all its statements in one batch. The latest time wins.
/// The number of statements is kept so that each one is accounted for.
package struct TokenEvidence: Hashable, Sendable {
    /// The token that the statements name.
    package let token: DeviceToken
    /// The latest time at which APNs found the token dead.
    package let time: EpochMilliseconds
    /// The number of combined statements, at least 1.
    package private(set) var statements: Int
    /// The most times of a token that are kept.
    package static let mostTimes = 1_000
    /// The times of the other statements, latest first: all but one of `mostTimes` at most, and none where nobody asked for
    /// them.
    package private(set) var earlier: [EpochMilliseconds] = []

    /// Makes the evidence about one token from its latest time and its number of statements.
    package init(token: DeviceToken, time: EpochMilliseconds, statements: Int = 1) {
        self.token = token
        self.time = time
        self.statements = statements
    }

    /// Adds a statement that is no later than the others.
    mutating func add(earlier time: EpochMilliseconds) {
        statements += 1
        if earlier.count < Self.mostTimes - 1 { earlier.append(time) }
    }
}

/// Evidence in token order, each token once, in batches. Two passes over it give the same tokens in
/// the same order, so a pass can stop after a token and continue from it on another day.
package protocol EvidenceStream {
    /// The next tokens, at most `limit`; empty at the end. Throws where the evidence cannot be
    /// read.
    mutating func next(_ limit: Int) throws -> [TokenEvidence]
}

/// Evidence in memory, in token order and each token once.
package struct ListedEvidence: EvidenceStream {
    private var rest: ArraySlice<TokenEvidence>

    /// The evidence behind a token, or all of it.
    package init(_ evidence: [TokenEvidence], after position: DeviceToken? = nil) {
        rest = evidence.drop { item in position.map { item.token <= $0 } ?? false }
    }

    /// The next tokens, at most `limit`.
    package mutating func next(_ limit: Int) -> [TokenEvidence] {
        defer { rest = rest.dropFirst(limit) }
        return Array(rest.prefix(limit))
    }
}

/// One report of a batch.
package struct NumberedReport: Hashable, Sendable {
    package let token: DeviceToken
    /// 0 for the first report about the token in its batch, and so on: the latest of a list or file, which are
    /// sorted, and the one that came first of a sender.
    package let number: Int
    /// The time at which APNs found the token dead.
    package let time: EpochMilliseconds

    package init(token: DeviceToken, number: Int, time: EpochMilliseconds) {
        (self.token, self.number, self.time) = (token, number, time)
    }
}

/// Reports in the order of token and number. Two passes give the same reports in the same order.
package protocol ReportSource {
    /// The next reports, at most `limit`; fewer only at the end.
    mutating func next(_ limit: Int) throws -> [NumberedReport]
}
