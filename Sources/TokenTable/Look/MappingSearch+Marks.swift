import APNsProtocol
import Database
import Encodings

// What says that a row is not used any more, and when its device registered last.

extension MappingSearch {
    // MARK: Mark

    /// A column of two values that says whether a row is used.
    private struct Flag {
        let column: CatalogColumn
        let living: String
        let dead: String
        /// Words that are neither.
        let others: [String]
    }

    mutating func findMark() {
        if takeMark() { return }
        let flags = free.filter {
            (ColumnWords($0.name).saysLiving != nil || ColumnWords($0.name).isPreference)
                && isWritable($0)
        }
        let times = free.filter { ColumnWords($0.name).namesMarkTime && isWritable($0) }
        if isOfPeople {
            guard let column = (flags + times).first else { return }
            return ask(
                .living, about: column.name,
                "column \(column.name) may say whether the person is active, not the device; name it under "
                    + "living only if a dead token means that")
        }
        // A word for yes before a word for no, both before a time.
        let order =
            flags.filter { ColumnWords($0.name).saysLiving == true }
            + flags.filter { ColumnWords($0.name).saysLiving == false }
        var open: [(CatalogColumn, String)] = []
        for column in flags where ColumnWords(column.name).isPreference {
            guard let found = words(column, atMost: 8) else { continue }
            open.append(
                (
                    column,
                    "column \(column.name) has \(Self.list(found.map(\.word))), and its name is that of a "
                        + "person's choice; name it under living only if it means that the token is used"
                ))
        }
        for column in order {
            guard words(column, atMost: 8) != nil else { continue }
            switch flag(column) {
            case .success(let flag): return add(flag)
            case .failure(let doubt): open.append((column, doubt.description))
            }
        }
        for column in times where addMarkTime(column) { return }
        for (column, question) in open { ask(.living, about: column.name, question) }
    }

    /// Whether the rows are more than devices.
    private var isOfPeople: Bool {
        ColumnWords(table.catalog.name.name).isOfPeople
            || table.columns.contains { ColumnWords($0.name).isOfLogin }
    }

    private func isWritable(_ column: CatalogColumn) -> Bool {
        !column.isGenerated && !column.movesItself
    }

    private mutating func add(_ flag: Flag) {
        let name = flag.column.name
        proposal.mapping.living = LivingMapping(
            column: name, living: flag.living, dead: flag.dead)
        let others =
            flag.others.isEmpty
            ? ""
            : "; rows with \(Self.list(flag.others)) count as living, for only one word is dead"
        add(
            .living, name,
            Self.flag(name, flag.living, flag.dead),
            "the mark: most rows of Apple's devices have `\(flag.living)`\(others)")
    }

    private func flag(_ column: CatalogColumn) -> Result<Flag, Refusal> {
        guard let found = words(column, atMost: 8),
            let saysLiving = ColumnWords(column.name).saysLiving
        else { return .failure(Refusal("column \(column.name) has no values that tell")) }
        let words = found.map(\.word)
        let flags = words.compactMap(ValueWords.flag)
        if flags.count == words.count, words.count <= 2, let first = words.first {
            return pair(column, first, isLiving: flags[0] == saysLiving, count: found[0].count)
        }
        // Words: the most frequent one means a row that is used.
        let dead = ValueWords.deadest(words.dropFirst()) ?? declaredDead(column)
        guard ValueWords.isLiving(words[0]), let dead else {
            return .failure(
                Refusal(
                    "column \(column.name) has \(Self.list(words.prefix(8))); name the words of "
                        + "used and unused rows under living, where it is the mark"))
        }
        return .success(
            Flag(
                column: column, living: words[0], dead: dead,
                others: words.dropFirst().filter { $0 != dead }))
    }

    /// The two values of a flag, whose most frequent one is `word`.
    private func pair(
        _ column: CatalogColumn, _ word: String, isLiving: Bool, count: Int
    ) -> Result<Flag, Refusal> {
        // A status of numbers says nothing.
        guard let other = MappingSearch.opposite(word), !ColumnWords(column.name).isState else {
            return .failure(
                Refusal(
                    "column \(column.name) has `\(word)`; name its two values under living, "
                        + "where it is the mark"))
        }
        guard isLiving else {
            return .failure(
                Refusal(
                    "column \(column.name) has `\(word)` in \(count) of \(apple.count) rows of "
                        + "Apple's devices, which its name calls unused; name it under living if that "
                        + "is so"))
        }
        return .success(Flag(column: column, living: word, dead: other, others: []))
    }

    /// The word for an unused row among the members of an ENUM.
    private func declaredDead(_ column: CatalogColumn) -> String? {
        guard column.type == "enum" else { return nil }
        return ValueWords.deadest(column.declaration.quotedMembers)
    }

    /// Takes a column of times as the mark where most rows have none.
    private mutating func addMarkTime(_ column: CatalogColumn) -> Bool {
        let values = table.values(column.name)
        let empty = apple.count { TokenSample.isBlank(values[$0]) || values[$0].integer == 0 }
        guard empty * 2 >= apple.count, column.isNullable || empty == apple.count else {
            return false
        }
        let look = TimeLook(column, of: table)
        let isClock = ["datetime", "timestamp"].contains(column.type)
        let isFuture = look?.known.contains { $0 > table.now.advanced(by: Self.day) } == true
        let mayBeTime =
            isClock || dialect.engine == .sqlite && !column.isInteger && empty == apple.count
        guard !isFuture, look != nil || mayBeTime else { return false }
        var type: TimeColumnType?
        if let look {
            guard case .usable(let found) = look.form else {
                ask(
                    .invalidatedAt, about: column.name,
                    "column \(column.name) has times of marks in a form that cannot be written, so marks "
                        + "go to pushsweep_invalid")
                return false
            }
            type = found
        }
        proposal.mapping.invalidatedAt = TimeMapping(column: .named(column.name), type: type)
        add(
            .invalidatedAt, column.name, Self.time(column.name, type),
            "the mark: \(empty) of \(apple.count) rows of Apple's devices have none")
        return true
    }

    /// The value of `living` in settings.
    static func flag(_ column: String, _ living: String, _ dead: String) -> String {
        "{column: \(column.yamlScalar), living: \(living.yamlScalar), "
            + "dead: \(dead.yamlScalar)}"
    }

    /// The value of a time in settings.
    static func time(_ column: String, _ type: TimeColumnType?) -> String {
        guard let type else { return column.yamlScalar }
        return "{column: \(column.yamlScalar), type: \(type.rawValue)}"
    }

    // MARK: Registration

    /// A column of times with the score of its name.
    private struct Scored {
        let look: TimeLook
        let score: Double
        /// The newest time that is not in the future.
        let newest: EpochMilliseconds
    }

    private static let day: Int64 = 86_400_000

    mutating func findRegistration() {
        if takeRegistration() { return }
        let scored = free.compactMap { column -> Scored? in
            guard let score = ColumnWords(column.name).registrationScore,
                let look = TimeLook(column, of: table)
            else { return nil }
            let known = apple.compactMap { look.times[$0] }
            // A few rows may have the time of a wrong clock.
            let limit = table.now.advanced(by: Self.day)
            let ahead = known.count { $0 > limit }
            guard known.count * 2 >= apple.count, ahead * 10 <= known.count else { return nil }
            let isSetOnce = score == 5 && isOfPeople
            return Scored(
                look: look, score: isSetOnce ? 0.5 : score,
                newest: known.filter { $0 <= limit }.max() ?? EpochMilliseconds(0))
        }
        guard var best = scored.max(by: { ($0.score, $0.newest) < ($1.score, $1.newest) }) else {
            return ask(
                .registeredAt,
                "no column has the time at which a device registered last: without it a device that "
                    + "registers again can be marked by an older signal; see docs/registrations.md")
        }
        var moved = ""
        if let later = scored.first(where: {
            ColumnWords($0.look.column.name).moves
                && $0.look.isLater(than: best.look, in: apple)
        }) {
            // The later of two times is the safer one: it keeps a device.
            moved = "; it is later than \(best.look.column.name)"
            best = later
        }
        addRegistration(best.look, best.score, moved)
    }

    private mutating func addRegistration(_ look: TimeLook, _ score: Double, _ moved: String) {
        let name = look.column.name
        let isSetOnce = ColumnWords(name).isSetOnce
        let writer = writer(of: look.column)
        if let serving = ServingColumn(times: look.column, look.form, of: table) {
            let value = Self.time(serving.name, serving.timeType)
            let statement = serving.statement(for: table.catalog.name, dialect)
            if !proposal.statements.isEmpty {
                proposal.statements.append(statement)
                proposal.mapping.registeredAt = TimeMapping(
                    column: .named(serving.name), type: serving.timeType)
                return add(
                    .registeredAt, serving.name, value,
                    "a statement above adds this column from \(name)")
            }
            return ask(
                .registeredAt, about: name,
                "column \(name) has times in a form that cannot be compared; run "
                    + "\(statement) and write registered-at: \(value)",
                answer: "--registered-at \(name)")
        }
        guard case .usable(let type) = look.form, score != 1 else {
            return ask(
                .registeredAt, about: name,
                "column \(name) has times; name it under registered-at if the application writes it "
                    + "whenever a device registers", answer: "--registered-at \(name)")
        }
        proposal.mapping.registeredAt = TimeMapping(column: .named(name), type: type)
        let once =
            isSetOnce && writer == nil
            ? "; its name says that it is set once: a device that registers again in the same row is "
                + "not seen" : ""
        add(
            .registeredAt, name, Self.time(name, type),
            "\(Self.why(score)); the newest is of \(newest(look))\(moved)\(writer.map { "; \($0)" } ?? "")\(once)"
        )
        askZone(look)
    }

    /// Maps the column that a person named, by a statement where its form cannot be compared.
    mutating func addAnswered(_ look: TimeLook) {
        guard let serving = ServingColumn(times: look.column, look.form, of: table) else {
            let type = look.mapped ?? nil
            proposal.mapping.registeredAt = TimeMapping(
                column: .named(look.column.name), type: type)
            add(
                .registeredAt, look.column.name, Self.time(look.column.name, type),
                "\(LookAnswers.reason); the newest is of \(newest(look))")
            return askZone(look)
        }
        proposal.statements.append(serving.statement(for: table.catalog.name, dialect))
        proposal.mapping.registeredAt = TimeMapping(
            column: .named(serving.name), type: serving.timeType)
        add(
            .registeredAt, serving.name, Self.time(serving.name, serving.timeType),
            "\(LookAnswers.reason); a statement above adds this column from \(look.column.name)")
        taken.insert(look.column.name)
    }

    /// Why a column is the registration, by the score of its name.
    private static func why(_ score: Double) -> String {
        switch score {
        case 5...: "its name says registration"
        case 3.5...: "its name says that the device was there"
        case 3...: "its name says that it moves"
        case 2...: "it is the time of the row"
        default: "no other time is nearer to a registration"
        }
    }

    private func newest(_ look: TimeLook) -> String {
        String(
            WallClock(milliseconds: (look.known.max() ?? EpochMilliseconds(0)).rawValue)
                .text(fraction: 0).prefix(16))
    }

    /// What writes the column by itself; nil where only the application can.
    private func writer(of column: CatalogColumn) -> String? {
        if column.movesItself {
            return
                "the database sets it at every change of the row (ON UPDATE); changes by Pushsweep keep "
                + "its value"
        }
        let trigger = table.triggers.first {
            $0.writes(
                column.name, whenUpdating: token.column.name, of: table.catalog.name, dialect.engine
            )
        }
        if let trigger { return "trigger \(trigger.name) writes it" }
        return column.hasTimeDefault && !ColumnWords(column.name).isSetOnce
            ? "its default sets it when the row is made, and only the application moves it" : nil
    }

    /// Times after the present were written by a clock of another zone.
    private mutating func askZone(_ look: TimeLook) {
        if table.serverOffset != 0, look.column.type == "datetime", !look.column.movesItself {
            let zone = ZoneOffset(seconds: table.serverOffset)
            return ask(
                .registeredAt, about: look.column.name,
                "the server's own zone is \(zone), and \(look.column.name) has times without a zone: if the "
                    + "application writes local time, name it, such as zone: \"\(zone)\"")
        }
        let ahead = look.known.max()?.distance(from: table.now) ?? 0
        guard ahead > 5 * 60_000, ahead < 14 * 3_600_000 else { return }
        let quarters = (ahead + 15 * 60_000 - 1) / (15 * 60_000)
        let zone = ZoneOffset(seconds: Int(quarters) * 15 * 60)
        ask(
            .registeredAt, about: look.column.name,
            "the newest \(look.column.name) is in the future: if the application writes local time, name "
                + "its zone, such as zone: \"\(zone)\"")
    }
}
