// Where a column has times without a zone, the clock tells in which zone the application writes.

import APNsProtocol
import Database
import Findings
import TokenTable

/// The times of a column without a zone beside the clock.
struct ClockSample {
    /// Times more than five minutes ahead of the clock, and at most by the greatest offset of any zone.
    private(set) var ahead = 0
    let known: Int
    /// Milliseconds by which the newest time is ahead; negative: behind.
    private var distance: Int64 = .min
    private let server: ServerZone

    private static let minute: Int64 = 60_000
    /// How far ahead of UTC a clock may be, in milliseconds.
    static let furthest = 14 * 60 * minute
    /// How far ahead a time may be that is of a clock which is not exact.
    static let tolerance = 5 * minute

    init(_ times: [EpochMilliseconds], now: EpochMilliseconds, _ server: ServerZone) {
        (known, self.server) = (times.count, server)
        for time in times {
            let distance = time.distance(from: now)
            guard distance <= Self.furthest else { continue }
            if distance > Self.tolerance { ahead += 1 }
            self.distance = max(self.distance, distance)
        }
    }

    /// The zone to name where the application wrote the newest time just now; nil where that time is neither
    /// ahead nor whole hours behind.
    var zone: ZoneOffset? {
        if ahead > 0 {
            // The server tells the smallest offset of the year.
            let isServers = distance <= Int64(server.now) * 1_000 + Self.tolerance
            return isServers && server != .utc
                ? ZoneOffset(seconds: server.least) : ZoneOffset(ahead: distance)
        }
        guard distance < 0, distance > -Self.furthest else { return nil }
        let (hours, rest) = (-distance).quotientAndRemainder(dividingBy: 60 * Self.minute)
        return hours >= 1 && rest < 15 * Self.minute
            ? ZoneOffset(seconds: -Int(hours) * 3_600) : nil
    }

    /// The minutes by which the newest time is ahead, or behind.
    var minutes: UInt64 { distance.magnitude / UInt64(Self.minute) }
}

/// The times of a column in a whole table that are ahead of the clock by as much as a zone may be. A few rows of
/// many tell it, and a sample may have none of them.
struct TimesAhead: Hashable, Sendable {
    let column: String
    let count: Int
    let newest: EpochMilliseconds

    /// Asks for them where a look has none; nil where it has some, where the column says its zone, and where no
    /// row is ahead.
    ///
    /// - Throws: any failure of the query.
    static func read(
        _ column: String, of look: LookedTable, _ session: DatabaseSession
    ) throws(StoreFailure) -> TimesAhead? {
        guard let column = look.columns.first(where: { $0.name.isExactly(column) }),
            let times = TimeLook(column, of: look), times.isClock, times.mapped != nil,
            ClockSample(times.known, now: look.now, look.serverZone).ahead == 0
        else { return nil }
        let name = look.dialect.quoted(column.name)
        let limits = [ClockSample.tolerance, ClockSample.furthest].map {
            SQLValue.text(
                WallClock(milliseconds: look.now.advanced(by: $0).rawValue).text(fraction: 0))
        }
        let found = try session.retries.retrying(
            "looking for times of \(look.catalog.name) ahead of the clock"
        ) {
            () throws(SQLFailure) in
            try session.connection.query(
                "SELECT COUNT(*), MAX(\(name)) FROM \(look.catalog.name.sql(look.dialect)) "
                    + "WHERE \(name) > ? AND \(name) < ?", limits)
        }
        guard found.count == 1, let count = found[0, 0].count, count > 0 else { return nil }
        let newest = LookedTable(
            catalog: look.catalog, columns: [column], rows: [[found[0, 1]]], now: look.now,
            dialect: look.dialect)
        return TimeLook(column, of: newest)?.known.first.map {
            TimesAhead(column: column.name, count: count, newest: $0)
        }
    }
}

extension MappingSearch {
    /// Asks for the zone of times that have none where the clocks leave it open.
    mutating func askZone(_ look: TimeLook) {
        let name = look.column.name
        let isDate = look.form == .date
        guard look.isClock || isDate && table.serverZone.least < 0 else { return }
        var times = apple.compactMap { look.times[$0] }
        let others = table.ahead.flatMap { $0.column.isExactly(name) ? $0 : nil }
        if let others { times.append(others.newest) }
        let sample = ClockSample(times, now: table.now, table.serverZone)
        let own = table.serverZone
        if !isDate, sample.ahead > 0, let zone = sample.zone {
            return ask(
                .registeredAt, about: name,
                (others.map { "\($0.count) of all" } ?? "\(sample.ahead) of \(sample.known)")
                    + " times of \(name) are ahead of the clock, by up to \(sample.minutes) minutes, so "
                    + "the application writes local time: name its zone, zone: \"\(zone)\"\(Self.leastOfYear(own, zone))"
            )
        }
        if own != .utc, look.column.type != "timestamp", dialect.engine == .mariaDB {
            let zone = ZoneOffset(seconds: own.least)
            return ask(
                .registeredAt, about: name,
                "the server's own zone is \(ZoneOffset(seconds: own.now)), and \(name) has times without a "
                    + "zone: if the application writes local time, name it, such as zone: "
                    + "\"\(zone)\"\(Self.leastOfYear(own, zone))")
        }
        guard !isDate, let zone = sample.zone else { return }
        ask(
            .registeredAt, about: name,
            "the newest \(name) is \(sample.minutes) minutes behind the clock, about whole hours: if a device "
                + "has registered since, the application writes local time; name its zone then, such as "
                + "zone: \"\(zone)\"")
    }

    private static func leastOfYear(_ server: ServerZone, _ zone: ZoneOffset) -> String {
        server.least == server.greatest
            ? " (with summer time the smallest offset of the year)"
            : ", the smallest offset of the year"
    }
}
