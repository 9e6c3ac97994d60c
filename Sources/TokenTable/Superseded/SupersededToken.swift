// A device has one token of each kind for an app. When it gets another one, APNs may go on to accept the older for
// long, and the application sends to both. So where rows name their device, the registrations tell which token the
// device uses: that of the last registration. What must not happen is that a token which is used is marked. So
// these do not decide:
//
//   another kind           a device has tokens for alerts, calls and live activities at once
//   another length         is another kind, whatever the rows say of the kind
//   less than a day        devices of one account change tokens in an hour of tests, and clocks differ
//   more than ten tokens   no device has so many: the value stands for many devices
//   rows of several users  one value for the devices of different people, such as a model's name
//   less than a week old   senders have had no time to hear whether APNs takes the newer one
//   an open suspect        APNs called a token of the device bad, so which one is right is not known
//   several devices        a token that a row of another device or kind has, too
//
// The evidence against the older token has the time a day before the newer registration. Evidence counts against
// rows that registered no later, so the verdict under the lock of the row repeats the rule of a day, and a device
// that registers the older token again in between keeps it.

import APNsProtocol
import Database
import TokenHygiene

/// A row with its token and its last registration.
package struct RegisteredRow: Hashable, Sendable {
    /// The row's key.
    package let key: LedgerKey
    package let token: DeviceToken
    package let registered: EpochMilliseconds
}

/// The older of two tokens of one device and kind, with the one that the device registered last.
package struct SupersededToken: Hashable, Sendable {
    /// Milliseconds by which the last registration must be later: a day.
    package static let leastDistance: Int64 = 86_400_000
    /// Milliseconds for which the newer token must have been registered: a week of sends, in which APNs calls it bad or
    /// dead if it is. Until then the older one may be the only one that reaches the device. Where
    /// the application writes the time at each launch, that is a week after the last one.
    package static let leastAge: Int64 = 7 * 86_400_000

    package let older: RegisteredRow
    package let newer: RegisteredRow
    /// The device and the kind of both.
    let group: DeviceGroup

    /// Whether senders have had time to try the newer token.
    func isTried(at now: EpochMilliseconds) -> Bool {
        now.distance(from: newer.registered) >= Self.leastAge
    }

    /// The evidence against the older token.
    package var evidence: TokenEvidence {
        TokenEvidence(
            token: older.token, time: newer.registered.advanced(by: -Self.leastDistance))
    }
}

/// A device and a kind of tokens, by the bytes of their columns: a collation takes other texts for the same.
struct DeviceGroup: Hashable, Sendable {
    let device: [UInt8]
    /// Empty where all tokens are of one kind.
    let kind: [UInt8]

    /// The bytes of a value that names something; nil for NULL and an empty value.
    static func bytes(_ value: SQLValue) -> [UInt8]? {
        let bytes: [UInt8]
        switch value {
        case .null, .real, .wallClock: return nil
        case .integer(let number): bytes = Array("\(number)".utf8)
        case .unsigned(let number): bytes = Array("\(number)".utf8)
        case .text(let text): bytes = Array(text.utf8)
        case .rawText(let content), .bytes(let content): bytes = content
        }
        return bytes.allSatisfy { $0 == UInt8(ascii: " ") } ? nil : bytes
    }

    /// Words that applications write where they know no device, and names of models, without brackets.
    private static let placeholders: Set<String> = [
        "unknown", "null", "nil", "none", "undefined", "n/a", "na", "default", "test", "device",
        "iphone", "ipad", "ipod", "ios", "simulator", "x86_64", "arm64",
    ]

    /// The bytes of a device; nil for what stands for none, such as 00000000-0000-0000-0000-000000000000.
    static func device(_ value: SQLValue) -> [UInt8]? {
        guard let bytes = bytes(value) else { return nil }
        let isPlaceholder = bytes.allSatisfy { $0 == 0 || "0- {}".utf8.contains($0) }
        let word = String(decoding: bytes, as: UTF8.self).lowercased()
            .split { " ()<>[]{}\"'".contains($0) }.joined(separator: " ")
        return isPlaceholder || placeholders.contains(word) ? nil : bytes
    }
}

/// A living row of a device whose registration can be read.
struct DeviceRow: Hashable, Sendable {
    let group: DeviceGroup
    let row: RegisteredRow
    /// The user of the row; nil where the table has none, or the account may not read it.
    var user: [UInt8]?
}

/// What the living rows of some devices say, each device with all of its rows in the partition.
struct DeviceJudgement {
    /// The most living tokens of one kind that a device can have; where kinds are not known, of all.
    static let mostTokens = 10

    /// In the order of the older tokens, each once for its device and kind.
    private(set) var superseded: [SupersededToken] = []
    /// Devices with more tokens of one kind than a device can have, or with rows of several users.
    private(set) var crowded = 0

    init(_ rows: [DeviceRow], suspects: Set<DeviceToken>, areKindsKnown: Bool) {
        for rows in Dictionary(grouping: rows, by: \.group.device).values {
            let kinds = Dictionary(grouping: rows, by: \.group)
            let users = Set(rows.compactMap(\.user))
            let sets = areKindsKnown ? Array(kinds.values) : [rows]
            guard users.count < 2, !sets.contains(where: Self.isCrowded) else {
                crowded += 1
                continue
            }
            guard !rows.contains(where: { suspects.contains($0.row.token) }) else { continue }
            for (group, rows) in kinds {
                for same in Dictionary(grouping: rows.map(\.row), by: \.token.count).values {
                    superseded += Self.superseded(same, group)
                }
            }
        }
        superseded.sort { $0.older.token < $1.older.token }
    }

    private static func isCrowded(_ rows: [DeviceRow]) -> Bool {
        Set(rows.map(\.row.token)).count > mostTokens
    }

    /// The superseded tokens among rows of one device, kind and length.
    private static func superseded(
        _ rows: [RegisteredRow], _ group: DeviceGroup
    ) -> [SupersededToken] {
        var latest: [DeviceToken: RegisteredRow] = [:]
        for row in rows {
            if let known = latest[row.token], known.registered >= row.registered { continue }
            latest[row.token] = row
        }
        let newest = latest.values.max {
            ($0.registered, $0.token) < ($1.registered, $1.token)
        }
        guard let newest else { return [] }
        return latest.values.filter { row in
            row.token != newest.token
                && newest.registered.distance(from: row.registered)
                    >= SupersededToken.leastDistance
        }.map { SupersededToken(older: $0, newer: newest, group: group) }
    }
}
