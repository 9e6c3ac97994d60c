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

        /// By length first: ten names are compared for every request.
        init?(_ name: ArraySlice<UInt8>) {
            let field: Field
            switch name.count {
            case 5: field = .path
            case 7: field = name.first == UInt8(ascii: ":") ? .method : .id
            case 10: field = .topic
            case 13: field = name.last == UInt8(ascii: "n") ? .authorization : .priority
            case 14: field = .pushType
            case 15: field = .expiration
            case 16: field = .collapseID
            default: return nil
            }
            let text = UnsafeRawBufferPointer(
                start: field.name.utf8Start, count: field.name.utf8CodeUnitCount)
            guard name.withUnsafeBytes({ $0.elementsEqual(text) }) else {
                return nil
            }
            self = field
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
