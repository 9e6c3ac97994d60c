// Most 410 answers come to other senders, which report them as rows of a table or lines of a log. A
// report is weaker than an answer: columns may be missing, tokens have any spelling, and a mapping can
// point to the wrong field. Its sender has seen the answer, so a 410 needs no reason here. The rest is as for an
// answer (AnswerMeaning), with three more rules:
//
//   no time        The time of sending counts when the report has it: the token was dead by then at
//                  the latest, and a registration after it survives. Without both the report is
//                  unusable, unless the settings allow the time of its arrival.
//   no 410         A 400 makes a token suspect, which marks nothing, and a 200 with a time clears one that is.
//                  Every other answer says nothing about the token and is passed over.
//   contradiction  A 410 with the reason of another status, or another status with the reason of a 410,
//                  is unusable.
//
// APNs knows no reason Superseded: whoever keeps the tokens says so of one whose device registered another one later. It
// is read as a 410 with its time.
//
// What is given and not understood is told, and never counts as not given: a reason that APNs does not have,
// without a status, is counted apart. So is a report about a token of another platform than Apple's.

import APNsProtocol
import Encodings

/// An answer of APNs as another sender reports it.
package struct ReportedAnswer: Hashable, Sendable {
    /// The token in any of the accepted spellings, UTF-8.
    package var token: [UInt8]
    /// The status of the answer; nil where the report names none.
    package var status: Int?
    /// The reason of the answer; nil where the report names none.
    package var reason: String?
    /// The time that APNs named in its answer.
    package var timestamp: EpochMilliseconds?
    /// The time at which the notification was sent.
    package var sentAt: EpochMilliseconds?
    /// The time at which the report arrived here.
    package var receivedAt: EpochMilliseconds?
    /// Whether the report names another platform than Apple's.
    package var namesOtherPlatform = false

    /// The most bytes of a token that a report may name. APNs makes none beyond 100.
    package static let longestToken = 1_024

    /// Makes the report of an answer about a token.
    package init(token: [UInt8], status: Int? = nil, reason: String? = nil) {
        self.token = token
        self.status = status
        self.reason = reason
    }
}

/// Why a report is not usable, with the cure.
package enum UnusableReport: Error, Hashable, Sendable, CustomStringConvertible {
    /// The token cannot be read.
    case token(Refusal)
    /// The report has no time.
    case missingTime
    /// The reason is outside Apple's list, so its timestamp may mean anything, and there is no time
    /// of sending.
    case foreignReason
    /// The time cannot be true.
    case time(EvidenceRejection, EpochMilliseconds)
    /// The reason belongs to another status.
    case contradiction(status: Int, reason: String)
    /// A field has a value of the wrong form, with its name.
    case field(String, expected: String)
    /// The line cannot be read, although it has the form of its file.
    case line(String)
    /// The line has not the form of its file; with the command that gives it that form, where there is one.
    case form(String, cure: String?)
    /// A text inside of the line, at the path with this spelling, is not the JSON object that a field is
    /// looked for in: it was cut off, or other text stands around the object.
    case nested(path: String, isCut: Bool)

    /// One clause, with the cure where there is one.
    package var description: String {
        switch self {
        case .token(let refusal): "the token is \(refusal)"
        case .missingTime:
            "it has no time: give the timestamp of the 410 or the time of sending"
        case .foreignReason:
            "its reason is none of Apple's, so its timestamp does not count: correct the reason, or "
                + "give the time of sending"
        case .time(.tooEarly, let time) where time.rawValue > 0 && time.rawValue < 100_000_000_000:
            "its time is \(time.rawValue) ms, before June 2009: it seems to be in seconds"
        case .time(let rejection, _): "it has \(rejection)"
        case .contradiction(let status, let reason):
            "status \(status) and reason \(reason) contradict each other"
        case .field(let name, let expected): "its \(name) is not \(expected)"
        case .line(let cause): cause
        case .form(let cause, let cure): cause + (cure.map { "; \($0)" } ?? "")
        case .nested(let path, true):
            "the text in \(path) begins a JSON object and does not end it, so it was cut off"
        case .nested(let path, false):
            "text stands beside the JSON object in \(path), so no field is read from it"
        }
    }

    /// The mistake without the values of the report, the same for reports that fail for one reason.
    package var mistake: String {
        switch self {
        case .time(let rejection, _): "time \(rejection)"
        case .contradiction: "contradiction"
        case .form: "form"
        default: description
        }
    }
}

/// What a report says about its token.
package enum ReportReading: Hashable, Sendable {
    /// The token is dead: evidence like any other.
    case evidence(DeviceToken, EvidenceSource, EpochMilliseconds)
    /// APNs called the token bad or of another topic, at that time. Never a reason to remove a row. Without a
    /// token it is none that a row can have.
    case suspect(DeviceToken?, EvidenceSource, EpochMilliseconds)
    /// APNs accepted a notification for the token at that time.
    case accepted(DeviceToken, EpochMilliseconds)
    /// The answer says nothing about the token.
    case nothing
    /// The token is of another platform than Apple's.
    case otherPlatform
    /// The answer is known by its reason alone, and APNs does not have this one.
    case unknownReason(ProviderReason)
}

/// Reads reports.
package struct ReportReader: Hashable, Sendable {
    private let now: EpochMilliseconds
    private let bounds: EvidenceBounds
    private let mayUseArrival: Bool

    /// Reads reports that arrive at `now`. `mayUseArrival` lets the time of arrival stand for a
    /// missing time.
    package init(now: EpochMilliseconds, mayUseArrival: Bool) {
        self.now = now
        bounds = EvidenceBounds(now: now)
        self.mayUseArrival = mayUseArrival
    }

    /// What a report says; nothing for a line without one.
    package func reading(
        of report: Result<ReportedAnswer?, UnusableReport>
    ) -> Result<ReportReading, UnusableReport> {
        report.flatMap { report in
            Result { () throws(UnusableReport) in try report.map(read) ?? .nothing }
        }
    }

    /// What a report says. Without a status, the reason tells it; a report with neither says
    /// nothing.
    ///
    /// - Throws: the reason for which the report is unusable.
    package func read(_ report: ReportedAnswer) throws(UnusableReport) -> ReportReading {
        guard !report.namesOtherPlatform,
            !DeviceToken.isOfOtherPlatform(spelling: report.token)
        else { return .otherPlatform }
        let isBlank = report.reason?.utf8.allSatisfy { $0 <= UInt8(ascii: " ") } ?? true
        let reason = isBlank ? nil : report.reason.map { ProviderReason($0) }
        let source = EvidenceSource(reported: reason)
        let usual = source == .superseded ? 410 : reason?.status
        guard let status = report.status ?? usual else {
            return reason.map(ReportReading.unknownReason) ?? .nothing
        }
        let answer = ProviderAnswer(status: status, body: AnswerBody(reason: reason))
        if answer.meaning == .suspectToken { return suspicion(of: report, reason) }
        // A sender's own 200 may stand beside the reason of APNs.
        if status == 200, reason == nil { return acceptance(of: report) }
        guard status == 410, (usual ?? 410) == 410 else {
            guard status == 410 || usual == 410 else { return .nothing }
            throw .contradiction(status: status, reason: report.reason ?? "")
        }
        let token: DeviceToken
        do {
            token = try DeviceToken(spelling: report.token)
        } catch {
            throw .token(error)
        }
        guard token.count <= ReportedAnswer.longestToken else {
            throw .field("token", expected: "at most \(ReportedAnswer.longestToken) bytes long")
        }
        // With a reason outside Apple's list the timestamp may have another meaning.
        var timestamp = report.timestamp
        if reason != nil, usual == nil { timestamp = nil }
        guard let time = timestamp ?? report.sentAt ?? (mayUseArrival ? report.receivedAt : nil)
        else { throw report.timestamp == nil ? .missingTime : .foreignReason }
        if let rejection = bounds.rejection(of: time) { throw .time(rejection, time) }
        return .evidence(token, source, time)
    }

    /// What a 200 says. Without a time it is not known what it follows; it may be reported long after.
    private func acceptance(of report: ReportedAnswer) -> ReportReading {
        guard let time = report.timestamp ?? report.sentAt,
            bounds.rejection(of: time) == nil, let token = readable(report.token)
        else { return .nothing }
        return .accepted(token, time)
    }

    /// The token, where it is one that a row can have.
    private func readable(_ spelling: [UInt8]) -> DeviceToken? {
        (try? DeviceToken(spelling: spelling)).flatMap {
            $0.count <= ReportedAnswer.longestToken ? $0 : nil
        }
    }

    /// What a 400 says. Nothing is marked by it, so a time that cannot be true is taken for now.
    private func suspicion(of report: ReportedAnswer, _ reason: ProviderReason?) -> ReportReading {
        let time = report.timestamp ?? report.sentAt ?? report.receivedAt ?? now
        return .suspect(
            readable(report.token), EvidenceSource(suspecting: reason),
            bounds.rejection(of: time) == nil ? time : now)
    }
}

/// How many reports of other senders were read, by what they mean.
package struct ReportCounts: Codable, Hashable, Sendable {
    /// Rows or lines that were read: the sum of the others.
    package var reports = 0
    /// Reports of a 410: evidence.
    package var evidence = 0
    /// Reports that call a token bad (400 BadDeviceToken, DeviceTokenNotForTopic). They are never a
    /// reason to remove a row.
    package var suspects = 0
    /// Answers and lines that say nothing against a token.
    package var other = 0
    /// Reports that cannot be used.
    package var quarantined = 0
    /// Reports about tokens of other platforms than Apple's.
    package var otherPlatform = 0
    /// Reports without a status whose reason APNs does not have.
    package var unknownReasons = 0

    /// Whether there are reports and none could be about a token of Apple's.
    package var sayNothing: Bool { reports > 0 && evidence + suspects + quarantined == 0 }

    /// Makes counts of nothing.
    package init() {}

    /// Adds the counts of more reports.
    package static func += (left: inout ReportCounts, right: ReportCounts) {
        left.reports += right.reports
        left.evidence += right.evidence
        left.suspects += right.suspects
        left.other += right.other
        left.quarantined += right.quarantined
        left.otherPlatform += right.otherPlatform
        left.unknownReasons += right.unknownReasons
    }
}
