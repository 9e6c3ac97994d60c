import APNsProtocol

/// What a client sent, reduced to what APNs looks at.
package struct GatewayRequest: Sendable {
    /// The fields that APNs looks at.
    package enum Field: Int, Sendable, CaseIterable {
        case method, path, authorization, id, topic, pushType, priority, expiration, collapseID

        /// The field's name on the wire.
        package var name: StaticString {
            switch self {
            case .method: ":method"
            case .path: ":path"
            case .authorization: "authorization"
            case .id: "apns-id"
            case .topic: "apns-topic"
            case .pushType: "apns-push-type"
            case .priority: "apns-priority"
            case .expiration: "apns-expiration"
            case .collapseID: "apns-collapse-id"
            }
        }

        init?(_ name: ArraySlice<UInt8>) {
            for field in Self.allCases where field.name.utf8CodeUnitCount == name.count {
                let text = UnsafeBufferPointer(
                    start: field.name.utf8Start, count: field.name.utf8CodeUnitCount)
                if name.elementsEqual(text) {
                    self = field
                    return
                }
            }
            return nil
        }
    }

    private var values: [ArraySlice<UInt8>?] = Array(repeating: nil, count: Field.allCases.count)
    /// Whether one of the fields came twice.
    private(set) var hasDuplicates = false
    /// The payload.
    package var body: ArraySlice<UInt8>

    /// A request without fields.
    package init(body: ArraySlice<UInt8> = []) {
        self.body = body
    }

    /// Takes down a field as it came; others than those in `Field` are ignored, as by APNs.
    package mutating func add(_ name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) {
        guard let field = Field(name) else {
            return
        }
        if values[field.rawValue] != nil {
            hasDuplicates = true
        } else {
            values[field.rawValue] = value
        }
    }

    /// The first value of a field.
    package subscript(field: Field) -> ArraySlice<UInt8>? { values[field.rawValue] }
}
