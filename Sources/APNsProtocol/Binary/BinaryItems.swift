/// Reads the items of a frame of command 2. Source: Apple, "Binary Provider API" (archived).
enum BinaryItems {
    /// The items found so far; nil for those that did not occur.
    private struct Found {
        var token: DeviceToken?
        var payload: [UInt8]?
        var identifier: UInt32?
        var expiration: NotificationExpiration?
        var priority: NotificationPriority?

        mutating func add(
            _ item: BinaryItem, _ data: UnsafeRawBufferPointer
        ) throws(BinaryFault) {
            if let length = item.fixedLength, data.count != length {
                throw .itemLength(item, bytes: data.count)
            }
            switch item {
            case .token:
                try BinaryFrame.checkToken(bytes: data.count)
                try once(token, item)
                token = DeviceToken(data)
            case .payload:
                try BinaryFrame.checkPayload(bytes: data.count, of: .framed)
                try once(payload, item)
                payload = Array(data)
            case .identifier:
                try once(identifier, item)
                identifier = data.bigEndian(UInt32.self, at: 0)
            case .expiration:
                try once(expiration, item)
                expiration = NotificationExpiration(
                    headerValue: data.bigEndian(UInt32.self, at: 0))
            case .priority:
                try once(priority, item)
                guard let known = NotificationPriority(rawValue: data[0]), known != .lowest else {
                    throw .unknownPriority(data[0])
                }
                priority = known
            }
        }

        private func once<Value>(_ found: Value?, _ item: BinaryItem) throws(BinaryFault) {
            guard found == nil else { throw .repeatedItem(item) }
        }
    }

    /// Reads all items of a frame. Throws the fault of the first wrong item in their order, else
    /// `missingToken` or `missingPayload`; and `oneByteLengths` in place of a fault that follows
    /// from those.
    static func frame(_ body: UnsafeRawBufferPointer) throws(BinaryFault) -> BinaryFrame {
        var found = Found()
        do throws(BinaryFault) {
            try walk(body) { (item, data) throws(BinaryFault) in try found.add(item, data) }
        } catch {
            throw hasOneByteLengths(body) ? .oneByteLengths : error
        }
        guard let token = found.token else { throw .missingToken }
        guard let payload = found.payload else { throw .missingPayload }
        return try BinaryFrame(
            .framed(
                identifier: found.identifier, expiration: found.expiration,
                priority: found.priority),
            token: token, payload: payload)
    }

    /// The first identifier among the items up to the first that cannot be read. It may stand behind
    /// items that are wrong in themselves.
    static func identifier(_ body: UnsafeRawBufferPointer) -> UInt32? {
        var identifier: UInt32?
        try? walk(body) { (item, data) throws(BinaryFault) in
            if item == .identifier, data.count == 4, identifier == nil {
                identifier = data.bigEndian(UInt32.self, at: 0)
            }
        }
        return identifier
    }

    /// Passes each item to a body. Throws `itemHeaderCut`, `unknownItem`, `itemBeyondFrame`, or what
    /// the body throws.
    private static func walk(
        _ body: UnsafeRawBufferPointer,
        _ visit: (BinaryItem, UnsafeRawBufferPointer) throws(BinaryFault) -> Void
    ) throws(BinaryFault) {
        var offset = 0
        while offset < body.count {
            let left = body.count - offset - BinaryItem.headerLength
            guard let item = BinaryItem(rawValue: body[offset]) else {
                throw .unknownItem(body[offset])
            }
            guard left >= 0 else { throw .itemHeaderCut(bytes: body.count - offset) }
            let length = Int(body.bigEndian(UInt16.self, at: offset + 1))
            guard length <= left else {
                throw .itemBeyondFrame(item, announced: length, left: left)
            }
            offset += BinaryItem.headerLength
            try visit(item, UnsafeRawBufferPointer(rebasing: body[offset..<(offset + length)]))
            offset += length
        }
    }

    /// Whether the whole frame can be read as items with one byte of length, a token and a payload
    /// among them.
    private static func hasOneByteLengths(_ body: UnsafeRawBufferPointer) -> Bool {
        var seen: Set<BinaryItem> = []
        var offset = 0
        while offset + 2 <= body.count {
            let length = Int(body[offset + 1])
            guard let item = BinaryItem(rawValue: body[offset]), length > 0,
                length == item.fixedLength ?? length, seen.insert(item).inserted
            else { return false }
            offset += 2 + length
        }
        return offset == body.count && seen.isSuperset(of: [.token, .payload])
    }
}
