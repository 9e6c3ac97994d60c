import CYAML

/// A step of the library through a text, as a value.
struct YAMLEvent {
    enum Kind: Hashable {
        /// A document begins.
        case document
        case scalar(String, isPlain: Bool)
        case sequence
        case mapping
        /// A sequence or a mapping ends.
        case close
        case alias
        /// The text ends.
        case end
        case other
    }

    let kind: Kind
    /// The name of the anchor, or of the anchor that an alias means; empty without one.
    var anchor: [UInt8] = []
    /// Whether a tag other than that of a text stands before a scalar.
    var isTagged = false
    /// Where it begins; both from 1.
    let line: Int, column: Int

    func failure(_ kind: YAMLFailure.Kind) -> YAMLFailure {
        YAMLFailure(kind: kind, line: line, column: column)
    }
}

/// The events of a text, one after the other.
final class YAMLEvents {
    // The parser holds its own address, so it stays where it was allocated until `deinit`.
    private let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
    private let bytes: UnsafeBufferPointer<UInt8>

    /// The bytes must outlive this, which does not copy them.
    init(_ bytes: UnsafeBufferPointer<UInt8>) throws(YAMLFailure) {
        self.bytes = bytes
        parser.initialize(to: yaml_parser_t())
        guard yaml_parser_initialize(parser) == 1 else {
            throw YAMLFailure(kind: .memory, line: 1, column: 1)
        }
        // An environment variable or the first bytes choose it otherwise.
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(parser, bytes.baseAddress, bytes.count)
    }

    deinit {
        yaml_parser_delete(parser)
        parser.deallocate()
    }

    /// The next event; none may be asked for after `end`.
    func next() throws(YAMLFailure) -> YAMLEvent {
        var event = yaml_event_t()
        guard yaml_parser_parse(parser, &event) == 1 else { throw failure }
        defer { yaml_event_delete(&event) }
        let (line, column) = (Int(event.start_mark.line) + 1, Int(event.start_mark.column) + 1)
        func plain(_ kind: YAMLEvent.Kind, _ anchor: UnsafeMutablePointer<UInt8>?) -> YAMLEvent {
            YAMLEvent(kind: kind, anchor: Self.name(anchor), line: line, column: column)
        }
        switch event.type {
        case YAML_DOCUMENT_START_EVENT: return plain(.document, nil)
        case YAML_STREAM_END_EVENT: return plain(.end, nil)
        case YAML_ALIAS_EVENT: return plain(.alias, event.data.alias.anchor)
        case YAML_SEQUENCE_START_EVENT:
            return plain(.sequence, event.data.sequence_start.anchor)
        case YAML_MAPPING_START_EVENT: return plain(.mapping, event.data.mapping_start.anchor)
        case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT: return plain(.close, nil)
        case YAML_SCALAR_EVENT:
            let scalar = event.data.scalar
            let text = String(
                decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length),
                as: UTF8.self)
            var found = plain(
                .scalar(text, isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE), scalar.anchor)
            let isImplicit = scalar.plain_implicit == 1 || scalar.quoted_implicit == 1
            found.isTagged =
                !isImplicit && Self.name(scalar.tag) != Array("tag:yaml.org,2002:str".utf8)
            return found
        default: return plain(.other, nil)
        }
    }

    /// The bytes of a C string; none for nil.
    private static func name(_ text: UnsafeMutablePointer<UInt8>?) -> [UInt8] {
        guard let text else { return [] }
        var end = text
        while end.pointee != 0 { end += 1 }
        return Array(UnsafeBufferPointer(start: text, count: end - text))
    }

    /// Where and why the library stopped.
    private var failure: YAMLFailure {
        let mark = parser.pointee.problem_mark
        switch parser.pointee.error {
        case YAML_MEMORY_ERROR: return YAMLFailure(kind: .memory, line: 1, column: 1)
        case YAML_READER_ERROR:
            let before = bytes.prefix(parser.pointee.problem_offset)
            let line = before.split(
                separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            return YAMLFailure(
                kind: .character, line: max(line.count, 1),
                column: line.last.map {
                    String(decoding: $0, as: UTF8.self).unicodeScalars.count + 1
                } ?? 1)
        default:
            let problem = parser.pointee.problem.map { String(cString: $0) }
            return YAMLFailure(
                kind: .grammar(problem ?? "the library gives no reason"),
                line: Int(mark.line) + 1, column: Int(mark.column) + 1)
        }
    }
}
