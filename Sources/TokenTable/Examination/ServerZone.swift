// A DATETIME is what the writer's clock showed. Where clocks are set forward in summer, the smaller offset of
// the year is the one to name: with the greater one each registration of the winter is read an hour early, and
// a device that registered after a report is marked. The other way round it is kept for an hour too long.

import APNsProtocol
import Database
import Findings

/// How far a server's own clock is ahead of UTC, in seconds. Applications that set no zone write by it.
package struct ServerZone: Hashable, Sendable {
    /// At present.
    package let now: Int
    /// The least and the greatest of the year that begins now.
    package let least: Int
    package let greatest: Int

    /// A clock that shows UTC all year.
    package static let utc = ServerZone(now: 0, least: 0, greatest: 0)

    /// Days between the times of a year at which the server is asked: fewer than winter lasts anywhere.
    private static let step = 3

    /// Reads the zone in which sessions of a server begin. SQLite has none.
    ///
    /// - Throws: any failure of the query.
    package static func read(_ session: DatabaseSession) throws(StoreFailure) -> ServerZone {
        guard session.connection.dialect.engine == .mariaDB else { return .utc }
        let offsets = stride(from: 0, to: 366, by: step).map { day in
            let time = "UTC_TIMESTAMP() + INTERVAL \(day) DAY"
            return
                "TIMESTAMPDIFF(MINUTE, \(time), CONVERT_TZ(\(time), '+00:00', @@global.time_zone))"
        }
        let row = try session.retries.retrying("reading the server's zone") {
            () throws(SQLFailure) in
            try session.connection.query("SELECT \(offsets.joined(separator: ", "))")
        }
        // NULL for a zone that the server's tables do not have.
        let minutes = (0..<row.width).compactMap { row.count > 0 ? row[0, $0].count : nil }
        guard let now = minutes.first, let least = minutes.min(), let greatest = minutes.max(),
            minutes.count == offsets.count
        else { return .utc }
        return ServerZone(now: now * 60, least: least * 60, greatest: greatest * 60)
    }

    /// What is wrong with a zone of the settings by this clock; nil where nothing is. `name` is the column,
    /// with its table.
    func finding(on offset: Int, of name: String) -> Finding? {
        guard self != .utc, offset > least, offset > now || offset <= greatest else { return nil }
        let zones = "\(ZoneOffset(seconds: offset))"
        let own = ZoneOffset(seconds: now)
        let when =
            offset > now
            ? "the server's own clock is \(own) now"
            : "the server's own clock is less far ahead in winter"
        return .warning(
            "zone-in-doubt",
            "\(name): registered-at.zone names \(zones), and \(when): registrations by that clock are then read "
                + "too early, and a device that came back can be marked; name the smallest offset of the "
                + "year, \(ZoneOffset(seconds: least))")
    }
}

extension ZoneOffset {
    /// The quarters of an hour past the full ones by which countries' clocks differ from UTC.
    private static let odd: Set = [14, 18, 22, 23, 26, 35, 38, 42, 51]

    /// The least offset of a country whose clock may show a time that is so many milliseconds ahead; nil
    /// where none is.
    package init?(ahead distance: Int64) {
        let quarter: Int64 = 15 * 60_000
        guard distance > 0, distance <= 56 * quarter else { return nil }
        let least = Int((distance + quarter - 1) / quarter)
        guard let found = (least...56).first(where: { $0 % 4 == 0 || Self.odd.contains($0) })
        else { return nil }
        self.init(seconds: found * 15 * 60)
    }
}
