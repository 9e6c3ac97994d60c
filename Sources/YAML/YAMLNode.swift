// YAML guesses types from spelling: `no` is false, `1e3` a number, `2:30` sexagesimal. Here every scalar stays the
// text of the file, and whoever reads it knows what it must be.
//
// libyaml tells one event after the other. This builds the tree from them: an alias is the node of its anchor,
// a key that stands twice in one place is a mistake, and depth and size have bounds, because a file of a few
// lines can name a node a billion times by aliases of aliases.

import CYAML

/// A value of a YAML document with its place.
package struct YAMLNode: Hashable, Sendable {
    /// What is written.
    package enum Content: Hashable, Sendable {
        /// A text; plain where it is not quoted and no block.
        case scalar(String, isPlain: Bool)
        /// The items in their order.
        case sequence([YAMLNode])
        /// Keys and values in their order. No two keys are the same text.
        case mapping([Pair])
    }

    /// A key with its value.
    package struct Pair: Hashable, Sendable {
        package let key: YAMLNode
        package let value: YAMLNode
    }

    package let content: Content
    /// Whether a tag other than that of a text stands before a scalar.
    package let isTagged: Bool
    /// Where the value begins, or the node of its anchor; both from 1, the column in characters.
    package let line: Int, column: Int

    /// The version of libyaml that is used.
    package static var libraryVersion: String { String(cString: yaml_get_version_string()) }

    /// The deepest nesting that is read.
    package static let deepest = 32
    /// The most values that are read, those behind aliases counted each time.
    package static let most = 100_000

    /// The only document of a text; nil where it has none.
    ///
    /// - Throws: the first mistake; what stands behind it is not known then.
    package static func document(_ text: String) throws(YAMLFailure) -> YAMLNode? {
        // Some editors put a byte order mark before the text. With a given encoding the library refuses it.
        let mark = "\u{FEFF}".utf8
        let bytes = Array(
            text.utf8.starts(with: mark) ? text.utf8.dropFirst(mark.count) : text.utf8[...])
        return try bytes.withUnsafeBufferPointer { buffer throws(YAMLFailure) in
            var composition = try YAMLComposition(YAMLEvents(buffer))
            return try composition.document()
        }
    }

    /// The text of a scalar; nil for all else.
    package var text: String? {
        if case .scalar(let text, _) = content { text } else { nil }
    }

    /// The items of a sequence; nil for all else.
    package var items: [YAMLNode]? {
        if case .sequence(let items) = content { items } else { nil }
    }

    /// The keys and values of a mapping; nil for all else.
    package var pairs: [Pair]? {
        if case .mapping(let pairs) = content { pairs } else { nil }
    }

    /// The value of a key of a mapping; nil where there is none.
    package subscript(key: String) -> YAMLNode? {
        pairs?.first { $0.key.text.map { $0.utf8.elementsEqual(key.utf8) } == true }?.value
    }

    /// Whether nothing is there: `~`, `null`, or no text at all.
    package var isNull: Bool {
        guard case .scalar(let text, isPlain: true) = content, !isTagged else { return false }
        return ["", "~", "null", "Null", "NULL"].contains(text)
    }
}

/// Why a text is no document of this kind.
package struct YAMLFailure: Error, Hashable, Sendable {
    /// The mistake.
    package enum Kind: Hashable, Sendable {
        /// What the library says of the grammar.
        case grammar(String)
        /// A character that YAML does not allow.
        case character
        /// A text stands twice as a key of one mapping.
        case twice(String)
        /// Lists and keys are nested deeper than `YAMLNode.deepest`.
        case depth
        /// More values than `YAMLNode.most`.
        case size
        /// A second document.
        case documents
        /// An alias whose anchor does not stand before it.
        case alias(String)
        /// The library got no memory.
        case memory
    }

    package let kind: Kind
    /// Both from 1.
    package let line: Int, column: Int
}

/// Builds the tree from the events.
private struct YAMLComposition {
    private let events: YAMLEvents
    /// The nodes with an anchor, the last of a name, and how many values each has.
    private var anchors: [[UInt8]: (node: YAMLNode, size: Int)] = [:]
    /// The number of values so far.
    private var size = 0

    init(_ events: YAMLEvents) { self.events = events }

    mutating func document() throws(YAMLFailure) -> YAMLNode? {
        var root: YAMLNode?
        while true {
            let event = try events.next()
            switch event.kind {
            case .end: return root
            case .document:
                guard root == nil else { throw event.failure(.documents) }
                root = try node(events.next(), depth: 1)
            case .other: continue
            default: throw event.failure(.grammar("a value stands outside of the document"))
            }
        }
    }

    private mutating func node(
        _ event: YAMLEvent, depth: Int
    ) throws(YAMLFailure) -> YAMLNode {
        let before = size
        size += 1
        guard depth <= YAMLNode.deepest else { throw event.failure(.depth) }
        guard size <= YAMLNode.most else { throw event.failure(.size) }
        let content: YAMLNode.Content
        switch event.kind {
        case .alias:
            guard let (node, count) = anchors[event.anchor] else {
                throw event.failure(.alias(String(decoding: event.anchor, as: UTF8.self)))
            }
            size = before + count
            guard size <= YAMLNode.most else { throw event.failure(.size) }
            return node
        case .scalar(let text, let isPlain): content = .scalar(text, isPlain: isPlain)
        case .sequence:
            var items: [YAMLNode] = []
            while case let item = try events.next(), item.kind != .close {
                items.append(try node(item, depth: depth + 1))
            }
            content = .sequence(items)
        case .mapping: content = .mapping(try pairs(depth: depth + 1))
        default: throw event.failure(.grammar("a value is missing"))
        }
        let node = YAMLNode(
            content: content, isTagged: event.isTagged, line: event.line, column: event.column)
        if !event.anchor.isEmpty { anchors[event.anchor] = (node, size - before) }
        return node
    }

    private mutating func pairs(depth: Int) throws(YAMLFailure) -> [YAMLNode.Pair] {
        var pairs: [YAMLNode.Pair] = []
        var seen: Set<[UInt8]> = []
        while case let event = try events.next(), event.kind != .close {
            let key = try node(event, depth: depth)
            if let text = key.text, !seen.insert(Array(text.utf8)).inserted {
                throw event.failure(.twice(text))
            }
            pairs.append(.init(key: key, value: try node(events.next(), depth: depth)))
        }
        return pairs
    }
}
