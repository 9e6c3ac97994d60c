import APNsProtocol
import Database

// A feed can be divided among connections. The parts are cut by token, at bounds that follow from
// their number alone. So a run that continues another's work finds the same parts without storing
// the bounds. Tokens are practically random, so parts cut by first byte are about equal; where they
// are not, only speed is lost.

/// One part of a feed: the tokens in a range.
package struct FeedPart: Hashable, Sendable {
    /// The index of the part, from 0.
    package let index: Int
    /// The number of parts of the feed, 1 to 256.
    package let count: Int

    /// The only part of an undivided feed.
    package static let whole = FeedPart(index: 0, count: 1)

    /// All parts of a feed divided into `count`, limited to 1 to 256.
    package static func parts(_ count: Int) -> [FeedPart] {
        let count = min(max(count, 1), 256)
        return (0..<count).map { FeedPart(index: $0, count: count) }
    }

    /// The least token of the part; nil for the first part.
    package var lowerBound: DeviceToken? { Self.bound(index, of: count) }

    /// The least token after the part; nil for the last part.
    package var upperBound: DeviceToken? { Self.bound(index + 1, of: count) }

    private static func bound(_ index: Int, of count: Int) -> DeviceToken? {
        index == 0 || index >= count ? nil : DeviceToken([UInt8(256 * index / count)])
    }
}
