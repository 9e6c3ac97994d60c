// When a device registered last. A wrong column here marks living devices, or never marks any, so names and
// rows decide together:
//
//   the name speaks of the token or the device                      before a plain time of the row
//   two of such names, two plain times, or one that may be the      a question; the later one is mapped until
//   first (`registered_at`, `connected_at`) and another time, one   it is answered, for it keeps devices
//   later in a fifth of the rows
//   moved by any write of the row (ON UPDATE, a trigger)            after others of its kind, and said to be so
//   set once by its name; a person's sign-up                        only where nothing else is there
//   the better name, and a fifth of the rows lack it                a question; another time is mapped
//   the name of a sender's time                                     never
//
// A time without a zone is compared with the clock: rows ahead of it were written in local time, and a newest
// one that lies whole hours behind it may be.

import APNsProtocol
import Database
import TokenTable

extension MappingSearch {
    /// A column of times with what its name is worth.
    private struct Scored {
        let look: TimeLook
        let score: Double
        /// Whether any write of the row moves it.
        let movesByAnyWrite: Bool
        /// The newest time that is not in the future.
        let newest: EpochMilliseconds
        /// The rows of Apple's devices that have it, and whether a fifth of them lack it.
        let known: Int
        let isLacking: Bool

        var name: String { look.column.name }

        static func < (one: Scored, other: Scored) -> Bool {
            (one.score, one.movesByAnyWrite ? 0 : 1, one.newest)
                < (other.score, other.movesByAnyWrite ? 0 : 1, other.newest)
        }
    }

    static let day: Int64 = 86_400_000

    mutating func findRegistration() {
        if takeRegistration() { return }
        let all = free.compactMap(scored)
        let lacking = all.filter { $0.isLacking && $0.score >= 3 }.max(by: <)
        var scored = all.filter {
            $0.known * 2 >= apple.count && !($0.isLacking && $0.score >= 3)
        }
        // A time of some rows keeps more devices than none.
        if scored.isEmpty, let lacking { scored = [lacking] }
        let isAsked = askUnread(above: scored.max(by: <)?.score ?? 1)
        guard var best = scored.max(by: <) else {
            if isAsked { return }
            return ask(
                .registeredAt,
                "no column has the time at which a device registered last: without it a device that "
                    + "registers again can be marked by an older signal; see docs/registrations.md")
        }
        if ColumnWords(best.name).registrationScore ?? 0 == 5, best.score == 0.25 {
            return ask(
                .registeredAt, about: best.name,
                "column \(best.name) may be the time at which a person signed up, which is set once; name it "
                    + "under registered-at only if the application writes it whenever a device registers",
                answer: LookAnswers.option(.column(best.name)))
        }
        let looks = scored.filter { !$0.movesByAnyWrite || best.movesByAnyWrite }.map(\.look)
        let first = best
        for _ in scored {
            guard let later = best.look.laterRival(among: looks, in: apple, isSure: false) else {
                break
            }
            best = scored.first { $0.name == later.column.name } ?? best
        }
        addRegistration(best)
        if let lacking, lacking.name == best.name || lacking.score > best.score {
            return ask(lacking, until: best)
        }
        guard let other = best.name != first.name ? first : equal(best, among: scored) else {
            return askNewToken(among: scored, until: best)
        }
        let count = best.look.rowsLater(than: other.look, in: apple)
        ask(
            .registeredAt, about: best.name,
            "\(best.name) is later than \(other.name) in \(count.later) of \(count.all) rows of Apple's devices: "
                + "which of them does the application write whenever a device registers? Until then the later "
                + "one keeps more devices", answer: LookAnswers.option(.column(other.name)))
    }

    /// Asks about a time with a good name that many rows lack: a row without one counts as never registered.
    private mutating func ask(_ lacking: Scored, until best: Scored) {
        let rest =
            lacking.name == best.name
            ? "" : " Until then \(best.name), which more rows have, keeps more devices"
        ask(
            .registeredAt, about: lacking.name,
            "column \(lacking.name) has a time in \(lacking.known) of \(apple.count) rows of Apple's devices, "
                + "and any signal marks a row without one: does the application write it whenever a device "
                + "registers?\(rest)", answer: LookAnswers.option(.column(lacking.name)))
    }

    /// Asks about the time at which the token was made, where a time of the row is mapped.
    private mutating func askNewToken(among scored: [Scored], until best: Scored) {
        guard best.score <= 3, !ColumnWords(best.name).isOfNewToken,
            let other = scored.first(where: { ColumnWords($0.name).isOfNewToken })
        else { return }
        ask(
            .registeredAt, about: other.name,
            "\(best.name) may move whatever is written, and \(other.name) is the time of the token by its "
                + "name: does the application write it whenever a device registers? Until then the later one "
                + "keeps more devices", answer: LookAnswers.option(.column(other.name)))
    }

    /// A time whose name is worth as much, and than which the best one is later in many rows.
    private func equal(_ best: Scored, among scored: [Scored]) -> Scored? {
        scored.first {
            $0.name != best.name && $0.score == best.score && $0.score >= 3
                && $0.movesByAnyWrite == best.movesByAnyWrite
                && best.look.isLater(than: $0.look, in: apple)
        }
    }

    /// A column as a candidate; nil where its values or its name are those of something else.
    private func scored(_ column: CatalogColumn) -> Scored? {
        guard let named = ColumnWords(column.name).registrationScore,
            let look = TimeLook(column, of: table), !look.isUnread
        else { return nil }
        let known = apple.compactMap { look.times[$0] }
        // A few rows may have the time of a wrong clock.
        let limit = table.now.advanced(by: Self.day)
        let ahead = known.count { $0 > limit }
        guard !known.isEmpty, ahead * 10 <= known.count else { return nil }
        let isOfPerson = named == 5 && (isOfPeople || mayBeOfPeople)
        return Scored(
            look: look, score: isOfPerson ? 0.25 : named,
            movesByAnyWrite: movesByAnyWrite(column),
            newest: known.filter { $0 <= limit }.max() ?? EpochMilliseconds(0),
            known: known.count, isLacking: (apple.count - known.count) * 5 >= apple.count)
    }

    /// Whether rows have a person's address, so that a registration may be that of the person.
    private var mayBeOfPeople: Bool {
        guard ColumnWords(table.catalog.name.name).tableScore <= 0 else { return false }
        return table.columns.map { ColumnWords($0.name) }.contains {
            $0.has(["email", "mail", "birthday"]) || $0.words == ["phone"]
                || $0.words == ["phone", "number"]
        }
    }

    private func movesByAnyWrite(_ column: CatalogColumn) -> Bool {
        column.movesItself || trigger(of: column)?.isOwn == false
    }

    /// A trigger that may write a column, one of others before ours.
    private func trigger(of column: CatalogColumn) -> (name: String, isOwn: Bool)? {
        let names = table.catalog.columns(behind: column.name)
        let writers = table.triggers.filter { $0.mayWrite(names) }
        if let other = writers.first(where: { !isOwn($0) }) { return (other.name, false) }
        return writers.first.map { ($0.name, true) }
    }

    private func isOwn(_ trigger: TableReach.Trigger) -> Bool {
        trigger.isOwn(token: token.column.name, of: table.catalog.name)
    }

    /// The name of a trigger of others that can write a row while it is marked.
    var foreignTrigger: String? {
        table.triggers.first { $0.event == "UPDATE" && $0.mayWriteTable && !isOwn($0) }?.name
    }

    /// Asks about a time that nothing reads and that has a better name than those that are read.
    private mutating func askUnread(above least: Double) -> Bool {
        let unread = free.compactMap { column -> (look: TimeLook, words: String, score: Double)? in
            guard let score = ColumnWords(column.name).registrationScore, score > least,
                let look = TimeLook(column, of: table), case .unread(let words) = look.form
            else { return nil }
            return (look, words, score)
        }
        guard let best = unread.max(by: { $0.score < $1.score }) else { return false }
        ask(
            .registeredAt, about: best.look.column.name,
            "column \(best.look.column.name) has \(best.words); \(Self.comparableTime)")
        return true
    }

    private static let comparableTime =
        "let the application write a DATETIME, or seconds since 1970, whenever a device registers"

    private mutating func addRegistration(_ best: Scored) {
        let (look, name) = (best.look, best.name)
        if let serving = ServingColumn(times: look.column, look.form, of: table) {
            return serveRegistration(look, by: serving)
        }
        guard case .usable(let type) = look.form, best.score != 1 else {
            return ask(
                .registeredAt, about: name,
                "column \(name) has times; name it under registered-at if the application writes it "
                    + "whenever a device registers", answer: LookAnswers.option(.column(name)))
        }
        proposal.mapping.registeredAt = TimeMapping(column: .named(name), type: type)
        let notes = [Self.why(best), "the newest is of \(newest(look))", writer(of: best)]
        add(
            .registeredAt, name, Self.time(name, type),
            notes.compactMap { $0 }.joined(separator: "; "))
        askZone(look)
    }

    /// Maps the column that a statement will add, or asks for it where no other statement has to run.
    private mutating func serveRegistration(_ look: TimeLook, by serving: ServingColumn) {
        let name = look.column.name
        let value = Self.time(serving.name, serving.timeType)
        let statement = serving.statement(for: table.catalog.name, dialect)
        let fact = "column \(name) has times in a form that cannot be compared"
        if let fault = fault(of: ServingTrial(serving, times: look.column)) {
            return ask(
                .registeredAt, about: name,
                "\(fact), and \(fault): \(Self.comparableTime)")
        }
        guard !proposal.statements.isEmpty else {
            return ask(
                .registeredAt, about: name, "\(fact), so a column of such times has to be added",
                answer: LookAnswers.option(.column(name)), statement: statement, setting: value)
        }
        proposal.statements.append(statement)
        proposal.mapping.registeredAt = TimeMapping(
            column: .named(serving.name), type: serving.timeType)
        add(.registeredAt, serving.name, value, "a statement above adds this column from \(name)")
        askZone(look)
    }

    /// Maps the column that a person named, by a statement where its form cannot be compared.
    mutating func addAnswered(_ look: TimeLook) {
        let answered = Scored(
            look: look, score: 0, movesByAnyWrite: movesByAnyWrite(look.column),
            newest: EpochMilliseconds(0), known: look.known.count, isLacking: false)
        if let serving = ServingColumn(times: look.column, look.form, of: table) {
            if let fault = fault(of: ServingTrial(serving, times: look.column)) {
                return ask(
                    .registeredAt, about: look.column.name,
                    "column \(look.column.name) was named, and \(fault): \(Self.comparableTime)")
            }
            let value = Self.time(serving.name, serving.timeType)
            proposal.statements.append(serving.statement(for: table.catalog.name, dialect))
            proposal.mapping.registeredAt = TimeMapping(
                column: .named(serving.name), type: serving.timeType)
            add(
                .registeredAt, serving.name, value,
                "\(LookAnswers.reason); a statement above adds this column from \(look.column.name)"
            )
            taken.insert(look.column.name)
        } else {
            let type = look.mapped ?? nil
            proposal.mapping.registeredAt = TimeMapping(
                column: .named(look.column.name), type: type)
            let notes = [
                LookAnswers.reason, "the newest is of \(newest(look))", writer(of: answered),
            ]
            add(
                .registeredAt, look.column.name, Self.time(look.column.name, type),
                notes.compactMap { $0 }.joined(separator: "; "))
        }
        askZone(look)
    }

    /// Why a column is the registration, by its name.
    private static func why(_ best: Scored) -> String {
        switch best.score {
        case _ where best.movesByAnyWrite: "any write of the row counts as a registration"
        case 6...: "its name says that the token was written"
        case 5...: "its name says registration"
        case 3.5...: "its name says that the device was there"
        case 3...: "its name says that the row was written"
        case 2...: "it is the time of the row"
        default: "no other time is nearer to a registration"
        }
    }

    private func newest(_ look: TimeLook) -> String {
        String(
            WallClock(milliseconds: (look.known.max() ?? EpochMilliseconds(0)).rawValue)
                .text(fraction: 0).prefix(16))
    }

    /// What writes the column; nil where only the application can.
    private func writer(of best: Scored) -> String? {
        let column = best.look.column
        if column.movesItself {
            return "the database sets it (ON UPDATE), and changes by Pushsweep keep its value"
        }
        if let (name, isOwn) = trigger(of: column) {
            return isOwn
                ? "trigger \(name) writes it with the token"
                : "trigger \(name) may write it at any update"
        }
        if ColumnWords(column.name).isSetOnce {
            return
                "its name says that it is set once: a device that registers again in the same row is not "
                + "seen"
        }
        return column.hasTimeDefault
            ? "its default sets it when the row is made, and only the application moves it" : nil
    }
}

// MARK: Rivals

extension TimeLook {
    /// A time that speaks against this one: later in a fifth of some rows, and its name not worse. The time of
    /// a row is later than that of a device in every table, and says nothing. Where nobody `isSure` of
    /// `registered_at` or `connected_at`, it may be set once.
    func laterRival(
        among others: [TimeLook], in rows: [Int]? = nil, isSure: Bool = true
    ) -> TimeLook? {
        let name = ColumnWords(column.name)
        let isOfDevice = name.isOfDeviceTime && (isSure || !name.mayBeOfFirst)
        return others.first { other in
            let words = ColumnWords(other.column.name)
            return words.moves && (!isOfDevice || words.isOfDeviceTime)
                && !other.isUnread && other.isLater(than: self, in: rows)
        }
    }
}
