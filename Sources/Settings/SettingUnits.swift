import Database

/// Times as settings write them: a whole number and one of `ms`, `s`, `m`, `h`,
/// `d`.
enum SettingTime {
    private static let units = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]

    /// Milliseconds, or nil when the text is no time.
    static func milliseconds(_ text: String) -> Int? { scaled(text, units: units) }

    /// A number of milliseconds in the largest unit that needs no fraction.
    static func text(_ milliseconds: Int) -> String {
        if milliseconds == 0 { return "0s" }
        return unscaled(milliseconds, units: units)
    }
}

/// Sizes as settings write them: bytes, or a whole number and one of `KiB`, `MiB`, `GiB`, `TiB`.
enum SettingSize {
    private static let units = [
        ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1),
    ]

    /// Bytes, or nil when the text is no size.
    static func bytes(_ text: String) -> Int? { scaled(text, units: units) }

    /// A number of bytes in the largest unit that needs no fraction.
    static func text(_ bytes: Int) -> String {
        if bytes == 0 { return "0" }
        return unscaled(bytes, units: units)
    }
}

private func scaled(_ text: String, units: [(name: String, factor: Int)]) -> Int? {
    let digits = text.prefix { $0 >= "0" && $0 <= "9" }
    let unit = text.dropFirst(digits.count)
    guard let factor = units.first(where: { $0.name == unit })?.factor,
        let number = PlainText.wholeNumber(digits)
    else { return nil }
    let (product, overflow) = number.multipliedReportingOverflow(by: factor)
    return overflow ? nil : product
}

private func unscaled(_ number: Int, units: [(name: String, factor: Int)]) -> String {
    for unit in units where number.isMultiple(of: unit.factor) {
        return "\(number / unit.factor)\(unit.name)"
    }
    return String(number)
}
