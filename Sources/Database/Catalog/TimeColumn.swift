import APNsProtocol
import Encodings

// A time column is read conservatively, because a registration read as too early deletes a living device:
//
//   no value             NULL, a zero date, an epoch count of 0: the time is unknown.
//   finer than 1 ms      rounded up for registrations, so that 10.7009 s is later than 10.700 s.
//   unreadable           text that is not a date, a date that does not exist, milliseconds from before
//                        March 1973 (so they are seconds), seconds from after the year 5000 (so they are
//                        milliseconds). A registration then counts as later than any time, and the row
//                        is refused and stays unchanged; a mark counts as none.
//
// Values are rounded down to the column's precision before they are written. MySQL rounds fractions that
// do not fit: a mark would move up to half a second past its evidence, and the next run would see a change.

/// One time column of the user's table: its name and the storage of its values.
package struct TimeColumn: Hashable, Sendable {
    /// The storage of instants in a column.
    package enum Storage: Hashable, Sendable {
        /// DATETIME or TIMESTAMP with this many digits of fraction (0 to 6), on a clock this many
        /// seconds ahead of UTC.
        case wallClock(fraction: Int, offset: Int)
        /// ISO 8601 text with milliseconds, on a clock this many seconds ahead of UTC.
        case text(offset: Int)
        /// Seconds since 1970-01-01T00:00:00Z.
        case epochSeconds
        /// Milliseconds since 1970-01-01T00:00:00Z.
        case epochMilliseconds
    }

    /// The name as the database spells it.
    package let name: String
    /// The storage of its instants.
    package let storage: Storage

    /// Describes a column; the database's own are found by `ColumnResolver`.
    package init(name: String, storage: Storage) {
        self.name = name
        self.storage = storage
    }

    /// The lowest plausible number of milliseconds: smaller ones are from before March 1973 and
    /// count as seconds.
    package static let leastMilliseconds: Int64 = 100_000_000_000

    /// The registration time in a value, rounded up; nil where the row has none.
    package func registration(_ value: SQLValue) -> EpochMilliseconds? {
        switch reading(value, rounding: .up) {
        case .none: nil
        case .instant(let instant): instant
        case .unreadable: EpochMilliseconds(.max)
        }
    }

    /// The mark time in a value, rounded down; nil where the row has none.
    package func mark(_ value: SQLValue) -> EpochMilliseconds? {
        if case .instant(let instant) = reading(value, rounding: .down) { instant } else { nil }
    }

    /// Whether the value is neither empty nor a valid time.
    package func isUnreadable(_ value: SQLValue) -> Bool {
        reading(value, rounding: .down) == .unreadable
    }

    private enum Reading: Hashable {
        case none
        case instant(EpochMilliseconds)
        case unreadable
    }

    private enum Rounding {
        case up
        case down
    }

    private func reading(_ value: SQLValue, rounding: Rounding) -> Reading {
        switch (storage, value) {
        case (_, .null): return .none
        case (.wallClock(_, let offset), .wallClock(let clock)),
            (.text(let offset), .wallClock(let clock)):
            return .instant(instant(clock, offset, rounding))
        // The driver returns dates that do not exist as text.
        case (.wallClock, .text(let text)):
            return text.utf8.starts(with: "0000-00-00".utf8) ? .none : .unreadable
        case (.text(let offset), .text(let text)):
            if text.utf8.allSatisfy({ $0 == UInt8(ascii: " ") }) { return .none }
            guard let stated = WallClock.stated(in: text.string) else { return .unreadable }
            return .instant(instant(stated.clock, stated.offset ?? offset, rounding))
        case (.epochSeconds, .integer(let seconds)):
            if seconds <= 0 { return .none }
            guard seconds < Self.leastMilliseconds else { return .unreadable }
            let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
            return overflow ? .unreadable : .instant(EpochMilliseconds(milliseconds))
        case (.epochMilliseconds, .integer(let milliseconds)):
            if milliseconds <= 0 { return .none }
            guard milliseconds >= Self.leastMilliseconds else { return .unreadable }
            return .instant(EpochMilliseconds(milliseconds))
        default: return .unreadable
        }
    }

    private func instant(
        _ clock: WallClock, _ offset: Int, _ rounding: Rounding
    ) -> EpochMilliseconds {
        let microseconds = clock.microseconds + (rounding == .up ? 999 : 0)
        return EpochMilliseconds(
            microseconds.flooredDivision(by: 1_000) - Int64(offset) * 1_000)
    }

    /// The latest instant not after `time` that the column can hold.
    package func floor(_ time: EpochMilliseconds) -> EpochMilliseconds {
        let unit: Int64 =
            switch storage {
            case .wallClock(let fraction, _): [1_000, 100, 10][safe: fraction] ?? 1
            case .epochSeconds: 1_000
            case .text, .epochMilliseconds: 1
            }
        let (floored, overflow) = time.rawValue.flooredDivision(by: unit)
            .multipliedReportingOverflow(by: unit)
        return EpochMilliseconds(overflow ? .min : floored)
    }

    /// The value to store for an instant that `floor` has rounded.
    package func value(_ time: EpochMilliseconds) -> SQLValue {
        switch storage {
        case .wallClock(_, let offset): .wallClock(clock(time, offset))
        case .text(let offset): .text(clock(time, offset).text(fraction: 3))
        case .epochSeconds: .integer(time.rawValue.flooredDivision(by: 1_000))
        case .epochMilliseconds: .integer(time.rawValue)
        }
    }

    private func clock(_ time: EpochMilliseconds, _ offset: Int) -> WallClock {
        WallClock(milliseconds: time.advanced(by: Int64(offset) * 1_000).rawValue)
    }
}

extension Array {
    fileprivate subscript(safe index: Int) -> Element? {
        indices.contains(index) ? self[index] : nil
    }
}
