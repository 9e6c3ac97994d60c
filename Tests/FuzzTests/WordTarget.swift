import APNsProtocol
import Encodings
import Foundation
import TokenHygiene

@testable import Database
@testable import Operations
@testable import PushQueue
@testable import TokenTable

extension FuzzTarget {
    /// The value of an option: the first byte says which, the others are what was typed.
    static let words = FuzzTarget(name: "words", mutations: 5_000, longest: 1_024) { input in
        guard let first = input.first else { return }
        let text = String(decoding: input.dropFirst(), as: UTF8.self)
        try checkPrinted(text)
        switch first % 12 {
        case 0:
            guard let seconds = try? CommandNumber.seconds(text) else { return }
            try checkTime(EpochMilliseconds(seconds * 1_000))
        case 1:
            guard let seconds = try? CommandNumber.expiration(text) else { return }
            try promise(Int64(UInt32(seconds)) == seconds, "\(seconds) does not fit")
        case 2:
            guard let rows = try? CommandNumber.rows(text) else { return }
            try promise((1...1_000_000_000).contains(rows), "\(rows) rows")
        case 3:
            guard let priority = try? CommandNumber.priority(text) else { return }
            try promise((1...10).contains(priority), "priority \(priority)")
        case 4:
            guard let rate = try? CommandNumber.rate(text) else { return }
            try promise(rate >= 1 && rate <= 1_000_000, "rate \(rate)")
        case 5:
            guard let time = EpochMilliseconds(dateAndTime: text) else { return }
            _ = time.rfc3339
            try checkTime(time)
        case 6:
            guard let token = try? DeviceToken(spelling: text) else { return }
            try promise(try DeviceToken(spelling: token.hex) == token, "a token is not itself")
        case 7:
            guard let beginning = NameBeginning(text) else { return }
            try promise(
                !beginning.begins(String(text.prefix(3))), "three characters name something")
        default: try checkThrottle(text, first)
        }
    }

    /// What is printed of a text stays on one line and moves no terminal; JSON says the same as before.
    private static func checkPrinted(_ text: String) throws {
        try promise(
            !PlainText.hasControlCharacter(text.printable), "a control character is printed")
        try promise(text.printable.printable == text.printable, "what is printed changes again")
        let json = [text].jsonLine.printableJSON
        try promise(!PlainText.hasControlCharacter(json), "a control character is printed in JSON")
        let read = try JSONDecoder().decode([String].self, from: Data(json.utf8))
        try promise(
            read.first?.unicodeScalars.elementsEqual(text.unicodeScalars) == true,
            "JSON says something else")
    }

    private static func checkTime(_ time: EpochMilliseconds) throws {
        for storage in [
            TimeColumn.Storage.wallClock(fraction: 3, offset: 50_400),
            .wallClock(fraction: 6, offset: -50_400), .text(offset: 0), .epochSeconds,
            .epochMilliseconds,
        ] {
            let column = TimeColumn(name: "t", storage: storage)
            if case .wallClock(let clock) = column.value(column.floor(time)) {
                try promise(WallClock(text: clock.text(fraction: 3)) != nil, "\(time) is no date")
            }
        }
    }

    private static let throttle = Settings.Throttle(stopFile: "/stop", replicas: [])

    private static func checkThrottle(_ text: String, _ first: UInt8) throws {
        var overrides = ThrottleOverrides()
        switch first % 12 {
        case 8: overrides.maxLag = text
        case 9: overrides.timeBudget = text
        case 10:
            overrides.maxLoad = text
            overrides.criticalLoad = text
        default:
            overrides.stopFile = text
            overrides.lagReplicas = [text]
        }
        do throws(RunFailure) {
            let laid = try throttle.overridden(by: overrides, folder: "/folder")
            let store = StoreSettings(location: .sqlite(path: "/x"))
            let pace = Throttle(laid, store)
            for number in [pace.maxLag, pace.timeBudget].compactMap({ $0 }) {
                try require(number.isFinite && number >= 0, "\(number)")
            }
            try require(laid.stopFile.hasPrefix("/"), "a path without a folder")
        } catch {
            try promise(error.exit == .usage, "\(error)")
            try promise(error.description.unicodeScalars.count < 5_000, "a refusal without end")
        }
    }

    private static func require(_ holds: Bool, _ what: String) throws(RunFailure) {
        guard holds else { throw RunFailure(.invariant, .settings, what) }
    }
}
