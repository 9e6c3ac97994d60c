import APNsProtocol
import Encodings
import TokenHygiene

@testable import Database
@testable import PushQueue
@testable import TokenTable

extension FuzzTarget {
    private static let actions = [
        "mark", "advance", "delete", "side-mark", "insert", "restore", "side-restore", "unknown",
    ]

    private static let storages: [TimeColumn.Storage] = [
        .wallClock(fraction: 3, offset: 50_400), .wallClock(fraction: 0, offset: -50_400),
        .text(offset: 0), .epochSeconds, .epochMilliseconds,
    ]

    /// An image of the ledger, and the result of an undo: the action, the kind of time column,
    /// eight bytes of time, then the text.
    static let images = FuzzTarget(name: "images", mutations: 5_000, longest: 4_096) { input in
        guard input.count >= 10 else { return }
        let text = String(decoding: input[10...], as: UTF8.self)
        let time = EpochMilliseconds(
            Int64(bitPattern: input[2..<10].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
        try checkReading(text)
        let storage = storages[Int(input[1]) % storages.count]
        let mark = TimeColumn(name: "invalidated_at", storage: storage)
        let registration = TimeColumn(name: "registered_at", storage: storage)
        let layout = TableLayout(
            table: TableName(name: "t"), key: [.init(name: "id", isInteger: true)],
            token: TokenColumn(
                name: "token", encoding: .hex, isBinary: false, tellsCaseApart: false),
            tokenIndex: nil, app: nil, environment: nil, registration: registration,
            heldColumns: [], mark: mark, reason: "reason",
            columns: ["id", "token", "registered_at", "invalidated_at", "reason"], exactness: nil)
        for hasImage in [true, false] {
            let entry = LedgerEntry(
                part: LedgerPart(run: "r", number: 1), sequence: 0,
                action: actions[Int(input[0]) % actions.count], evidence: time,
                source: "feedback", hasImage: hasImage)
            guard let step = ChangeImages(entry, image: hasImage ? text : nil, layout) else {
                continue
            }
            for current in [nil, step.before, step.after] {
                try checkPlayedBack(step, over: current, layout)
            }
        }
    }

    /// A value that was read is the same after it is written and read again.
    private static func checkReading(_ text: String) throws {
        if let key = RowImageReader.key(ExactText(text)) {
            try promise(RowImageReader.key(RowImage.key(key)) == key, "a key is not its image")
        }
        if let content = RowImageReader.content(text) {
            let again = RowImage.object(content.columns, content.values)
            try promise(RowImageReader.content(again) == content, "a content is not its image")
        }
        if let (before, after) = RowImageReader.pair(text) {
            let again = RowImageReader.pair(RowImage.pair(before: before, after: after))
            try promise(
                again.map { $0.before == before && $0.after == after } == true,
                "a step is not its image")
        }
    }

    private static func checkPlayedBack(
        _ step: ChangeImages, over current: RowContent?, _ layout: TableLayout
    ) throws {
        var row = UndoneRow(current)
        let reading = ContentReading(
            registeredAt: { content in
                content?["registered_at"].flatMap { layout.registration?.registration($0) }
            }, token: { _ in nil })
        row.undo(step, reading)
        try promise(
            row.restored + row.already + row.kept.values.reduce(0, +) == 1,
            "an entry ended in no count or in several")
        for time in [step.time, row.time, row.state?.tokenMark?.time].compactMap({ $0 }) {
            for dialect in [SQLDialect.mariaDB, .sqlite] {
                try checkWritten(dialect.ownTime("invalidated_at").value(time))
            }
            for storage in storages {
                let column = TimeColumn(name: "t", storage: storage)
                try checkWritten(column.value(column.floor(time)))
            }
        }
    }

    /// A date that is written is one that a database can hold.
    private static func checkWritten(_ value: SQLValue) throws {
        let text: String
        switch value {
        case .wallClock(let clock): text = clock.text(fraction: 6)
        case .text(let date): text = date.string
        default: return
        }
        try promise(WallClock(text: text) != nil, "\(text) is not a date")
    }
}
