import Foundation

/// A value with the version of its form, as programs read it from stdout or in a hook: the fields of
/// the value and the field `schema` in one object.
package struct JSONDocument<Body: Encodable>: Encodable {
    /// The version of all forms, described in `docs/json`. New fields leave it as it is, because
    /// readers ignore fields that they do not know; anything else raises it.
    package static var schema: Int { 1 }

    private let body: Body

    /// Wraps a value that encodes as an object.
    package init(_ body: Body) { self.body = body }

    private enum CodingKeys: CodingKey { case schema }

    /// Encodes the fields of the value and the version.
    package func encode(to encoder: any Encoder) throws {
        try body.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(Self.schema, forKey: .schema)
    }
}

extension Encodable {
    /// The line of a `JSONDocument`, as `--format json` prints it.
    package var documentLine: String { JSONDocument(self).jsonLine }
}
