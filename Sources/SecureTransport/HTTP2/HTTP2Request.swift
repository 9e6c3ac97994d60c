import CNGHTTP2

// The requests of a sender are similar: of some 700 bytes only the path, an id and the payload
// differ. So the common fields are stored once, in the form that nghttp2 reads, and a request has
// only its own values. One HTTP2Request is reused for all requests and allocates no memory once it
// has grown.

/// A header field with its treatment by header compression.
package struct HTTP2Field: Sendable, Equatable {
    /// The treatment of a field by HPACK (RFC 7541 section 6.2).
    package enum Indexing: Sendable, Equatable {
        /// Kept in the table: for values that are repeated.
        case incremental
        /// Never kept, here or by an intermediary: for secrets and for values that occur once.
        case never
    }

    /// The name in lower case; that of a pseudo-header field begins with a colon.
    package var name: String
    /// The value; nil in a template for a value of each request.
    package var value: String?
    /// The treatment by header compression.
    package var indexing: Indexing

    /// Makes a field with its value.
    package init(_ name: String, _ value: String, indexing: Indexing = .incremental) {
        (self.name, self.value, self.indexing) = (name, value, indexing)
    }

    /// Makes a field with a value of each request.
    package static func perRequest(_ name: String, indexing: Indexing = .never) -> HTTP2Field {
        var field = HTTP2Field(name, "", indexing: indexing)
        field.value = nil
        return field
    }
}

/// The common header fields of many requests. Confined to one thread, like its sessions.
package final class HTTP2RequestTemplate {
    /// The number of values of each request.
    let valuesPerRequest: Int
    let count: Int
    /// All fields in order; each submission sets the values of the open ones.
    let fields: UnsafeMutablePointer<nghttp2_nv>
    /// The positions of the open fields.
    let open: UnsafeMutablePointer<Int>
    private let text: UnsafeMutablePointer<UInt8>

    /// Stores the fields of `list` in its order; pseudo-header fields must be first (RFC 9113
    /// section 8.3). A request has the open values in the same order.
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
        func store(_ words: String) -> (UnsafeMutablePointer<UInt8>, Int) {
            let start = end
            for byte in words.utf8 {
                end.initialize(to: byte)
                end += 1
            }
            return (start, end - start)
        }
        for (position, field) in list.enumerated() {
            let (name, nameLength) = store(field.name)
            let (value, valueLength) = store(field.value ?? "")
            var flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue
            // The template lives as long as nghttp2 reads from it; the values of a request do not.
            if field.value != nil { flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue }
            if field.indexing == .never { flags |= NGHTTP2_NV_FLAG_NO_INDEX.rawValue }
            (fields + position).initialize(
                to: nghttp2_nv(
                    name: name, value: value, namelen: nameLength, valuelen: valueLength,
                    flags: UInt8(flags)))
        }
    }

    /// Sets the open fields to the values in `bytes`, each from the end of the previous one to its
    /// own in `ends`. Returns the body, which follows the last value.
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

/// One request, reused for each submission.
///
/// Call `append` and `endValue` for each open value of the template, then `append` for the body.
package struct HTTP2Request {
    /// The common fields.
    package private(set) var template: HTTP2RequestTemplate
    private(set) var bytes: [UInt8] = []
    /// The end of each value in `bytes`; the body follows the last one.
    private(set) var ends: [Int] = []

    /// Makes an empty request.
    package init(_ template: HTTP2RequestTemplate) {
        self.template = template
        bytes.reserveCapacity(8 * 1024)
        ends.reserveCapacity(template.valuesPerRequest)
    }

    /// Removes values and body and keeps the memory; `other` replaces the template.
    package mutating func reset(_ other: HTTP2RequestTemplate? = nil) {
        if let other, other !== template {
            template = other
        }
        bytes.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
    }

    /// Appends to the present value or to the body.
    package mutating func append(_ more: some Collection<UInt8>) {
        bytes.append(contentsOf: more)
    }

    /// Appends to the present value or to the body.
    package mutating func append(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    /// Ends the present value.
    package mutating func endValue() {
        ends.append(bytes.count)
    }

    /// The number of bytes of the body.
    package var bodyLength: Int { bytes.count - (ends.last ?? 0) }
}
