import APNsProtocol
import Encodings
import Foundation
import TokenHygiene

@testable import Database
@testable import Operations
@testable import PushQueue
@testable import Settings
@testable import TokenTable

extension FuzzTarget {
    /// The value of an option: the first byte chooses it, the others are its text.
    static let words = FuzzTarget(name: "words", mutations: 5_000, longest: 1_024) { input in
        guard let first = input.first else { return }
        let text = String(decoding: input.dropFirst(), as: UTF8.self)
        try checkPrinted(text)
        switch first % 9 {
        case 0:
            guard let rows = try? CommandNumber.rows(text) else { return }
            try promise((1...1_000_000_000).contains(rows), "\(rows) rows")
        case 1:
            guard let rate = try? CommandNumber.rate(text) else { return }
            try promise(rate >= 1 && rate <= 1_000_000, "rate \(rate)")
        case 2:
            guard let time = EpochMilliseconds(iso8601: text) else { return }
            _ = time.rfc3339
            try checkTime(time)
        case 3:
            guard let token = try? DeviceToken(spelling: text) else { return }
            try promise(try DeviceToken(spelling: token.hex) == token, "a token is not itself")
        case 4:
            guard let beginning = NameBeginning(text) else { return }
            try promise(
                !beginning.begins(String(text.prefix(3))), "three characters name something")
        default: try checkThrottle(text, first)
        }
    }

    /// A printed text stays on one line and controls no terminal; JSON keeps the same text.
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
                try promise(
                    WallClock(text: clock.text(fraction: 3)) != nil, "\(time) is not a date")
            }
        }
    }

    private static func checkThrottle(_ text: String, _ first: UInt8) throws {
        let options =
            switch first % 9 {
            case 5: [SettingOption("max-lag", sets: "throttle.max-lag", text, unit: "s")]
            case 6: [SettingOption("time-budget", sets: "throttle.time-budget", text)]
            case 7:
                [
                    SettingOption("max-load", sets: "throttle.max-load", text),
                    SettingOption("critical-load", sets: "throttle.critical-load", text),
                ]
            default:
                [
                    SettingOption("stop-file", sets: "throttle.stop-file", text),
                    SettingOption("lag-replica", sets: "throttle.replicas", [text]),
                ]
            }
        var settings = Settings()
        settings.throttle.stopFile = "/stop"
        let laid: Throttle
        do throws(SettingsFailure) {
            laid = try settings.overlaid(with: options, folder: "/folder").throttle
        } catch {
            let failure = RunFailure.wrapping(error, at: .settings)
            try promise(failure.exit == .usage, "\(failure)")
            try promise(failure.description.unicodeScalars.count < 5_000, "a refusal without end")
            return
        }
        for number in [laid.maxLag, laid.timeBudget].compactMap({ $0 }) {
            try promise(number.isFinite && number >= 0, "\(number)")
        }
        try promise(laid.stopFile?.hasPrefix("/") == true, "a path without a folder")
    }
}
