/// A limit on notifications per second. Unused allowance is kept for a tenth of a second at most, so
/// that no burst follows a pause.
struct RateLimit: Hashable, Sendable {
    private static let reserve = 0.1

    private let perSecond: Double
    private var credit = 0.0
    private var last: Double?

    /// Limits the rate; at least one per second.
    init(perSecond: Double) { self.perSecond = max(1, perSecond) }

    /// How many notifications may be sent at a time, in seconds of a monotonic clock.
    mutating func allowance(at now: Double) -> Int {
        if let last { credit += max(0, now - last) * perSecond }
        last = now
        credit = min(credit, max(1, perSecond * Self.reserve))
        return Int(credit)
    }

    /// Subtracts the notifications that were sent.
    mutating func spend(_ count: Int) { credit -= Double(count) }
}
