import CNGHTTP2

// A sender makes the same request again and again: of some 700 bytes only the path, an id and the
// payload differ. So what is common is laid out once, in the form that nghttp2 reads, and a request
// only says where its own values are. One value of HTTP2Request is filled again for each request
// and allocates nothing once it has grown.

/// A header field, and how the compressor may treat it.
package struct HTTP2Field: Sendable, Equatable {
    /// What HPACK may do with a field (RFC 7541 section 6.2).
    package enum Indexing: Sendable, Equatable {
        /// Kept in the table: for values that come again.
        case incremental
        /// Never kept, here or by an intermediary: for secrets and for values that come once.
        case never
    }

    /// In lower case; pseudo-header fields begin with a colon.
    package var name: String
    /// Nil in a template for a value that each request gives.
    package var value: String?
    /// How the compressor may treat it.
    package var indexing: Indexing

    /// A field with its value.
    package init(_ name: String, _ value: String, indexing: Indexing = .incremental) {
        (self.name, self.value, self.indexing) = (name, value, indexing)
    }

    /// A field whose value each request gives.
    package static func perRequest(_ name: String, indexing: Indexing = .never) -> HTTP2Field {
        var field = HTTP2Field(name, "", indexing: indexing)
        field.value = nil
        return field
    }
}

/// What many requests have in common, laid out once. Confined to one thread, as its sessions are.
package final class HTTP2RequestTemplate {
    /// How many values each request gives.
    package let valuesPerRequest: Int
    let count: Int
    /// In order; those of per-request fields are filled in by each submission.
    let fields: UnsafeMutablePointer<nghttp2_nv>
    /// Positions of the per-request fields.
    let open: UnsafeMutablePointer<Int>
    private let text: UnsafeMutablePointer<UInt8>

    /// Lays out `fields` in their order; pseudo-header fields must come first (RFC 9113 section
    /// 8.3). A request gives the values left open in the order in which they stand here.
    package init(_ list: [HTTP2Field]) {
        count = list.count
        fields = .allocate(capacity: max(count, 1))
        let openPositions = list.indices.filter { list[$0].value == nil }
        valuesPerRequest = openPositions.count
        open = .allocate(capacity: max(valuesPerRequest, 1))
        open.initialize(from: openPositions, count: valuesPerRequest)
        let size = list.reduce(0) { $0 + $1.name.utf8.count + ($1.value?.utf8.count ?? 0) }
        text = .allocate(capacity: max(size, 1))
        var end = text
        func lay(_ words: String) -> (UnsafeMutablePointer<UInt8>, Int) {
            let start = end
            for byte in words.utf8 {
                end.initialize(to: byte)
                end += 1
            }
            return (start, end - start)
        }
        for (position, field) in list.enumerated() {
            let (name, nameLength) = lay(field.name)
            let (value, valueLength) = lay(field.value ?? "")
            var flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue
            // The template outlives what it lends; a request's own values do not.
            if field.value != nil { flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue }
            if field.indexing == .never { flags |= NGHTTP2_NV_FLAG_NO_INDEX.rawValue }
            (fields + position).initialize(
                to: nghttp2_nv(
                    name: name, value: value, namelen: nameLength, valuelen: valueLength,
                    flags: UInt8(flags)))
        }
    }

    /// Points the open fields at the values in `bytes`, each from the end of the one before it to its own in
    /// `ends`, and gives what follows the last value: the body.
    func fill(
        _ bytes: UnsafeRawBufferPointer, _ ends: [Int]
    ) -> UnsafeRawBufferPointer {
        var start = 0
        for place in ends.indices {
            let field = fields + open[place]
            // nghttp2 copies these values and does not write to them.
            field.pointee.value = UnsafeMutableRawPointer(
                mutating: bytes.baseAddress.map { $0 + start })?
                .assumingMemoryBound(to: UInt8.self)
            field.pointee.valuelen = ends[place] - start
            start = ends[place]
        }
        return UnsafeRawBufferPointer(rebasing: bytes[start...])
    }

    deinit {
        fields.deallocate()
        open.deallocate()
        text.deallocate()
    }
}

/// One request, filled anew for each submission.
///
/// Give the values that the template leaves open, each by `append`s and an `endValue`, then the
/// body by `append`s.
package struct HTTP2Request {
    /// What it has in common with others.
    package private(set) var template: HTTP2RequestTemplate
    private(set) var bytes: [UInt8] = []
    /// Where each value ends in `bytes`; the body follows the last.
    private(set) var ends: [Int] = []

    /// An empty request.
    package init(_ template: HTTP2RequestTemplate) {
        self.template = template
        bytes.reserveCapacity(8 * 1024)
        ends.reserveCapacity(template.valuesPerRequest)
    }

    /// Forgets values and body, keeps the memory; with another template when one is given.
    package mutating func reset(_ other: HTTP2RequestTemplate? = nil) {
        if let other, other !== template {
            template = other
        }
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
    }

    /// Adds to the value or body being written.
    package mutating func append(_ more: some Collection<UInt8>) {
        bytes.append(contentsOf: more)
    }

    /// Adds to the value or body being written.
    package mutating func append(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    /// Ends the value being written.
    package mutating func endValue() {
        ends.append(bytes.count)
    }

    /// Bytes of the body.
    package var bodyLength: Int { bytes.count - (ends.last ?? 0) }
}
