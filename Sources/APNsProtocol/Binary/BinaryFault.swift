/// Why bytes are not a frame, or a notification does not fit into one.
package enum BinaryFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The first byte of a frame is none of 0, 1 and 2.
    case unknownCommand(UInt8)
    /// Command 2 announces more bytes than its five items can have.
    case frameTooLong(bytes: Int)
    /// No token, or one of no bytes.
    case missingToken
    /// A token of more than 100 bytes.
    case tokenTooLong(bytes: Int)
    /// No payload, or one of no bytes.
    case missingPayload
    /// A payload of more bytes than the command allows.
    case payloadTooLarge(bytes: Int, limit: Int)
    /// An item whose number is none of 1 to 5.
    case unknownItem(UInt8)
    /// An item that the frame has already.
    case repeatedItem(BinaryItem)
    /// An identifier, expiration or priority of another length than 4, 4 and 1.
    case itemLength(BinaryItem, bytes: Int)
    /// An item that announces more bytes than the frame has left.
    case itemBeyondFrame(BinaryItem, announced: Int, left: Int)
    /// The frame ends inside the number and length of an item.
    case itemHeaderCut(bytes: Int)
    /// Every item of the frame has a length of one byte in place of two.
    case oneByteLengths
    /// A priority other than 10 and 5.
    case unknownPriority(UInt8)

    /// The status with which a gateway answers. Source: Apple, "Binary Provider API" (archived),
    /// codes in error-response packets. Apple does not say which status a malformed item has; 128 is
    /// the one for frames that could not be parsed.
    package var status: BinaryStatus {
        switch self {
        case .missingToken: .missingToken
        case .tokenTooLong: .invalidTokenSize
        case .missingPayload: .missingPayload
        case .payloadTooLarge: .invalidPayloadSize
        case .unknownCommand, .frameTooLong, .unknownItem, .repeatedItem, .itemLength,
            .itemBeyondFrame, .itemHeaderCut, .oneByteLengths, .unknownPriority:
            .protocolError
        }
    }

    /// One clause for messages and reports.
    package var description: String {
        switch self {
        case .unknownCommand(let number): "command \(number) is none of 0, 1 and 2"
        case .frameTooLong(let bytes):
            "the frame announces \(bytes) bytes of items, the limit is "
                + "\(BinaryFrameDecoder.mostItemBytes)"
        case .missingToken: "it has no device token"
        case .tokenTooLong(let bytes):
            "the token has \(bytes) bytes, the limit is \(BinaryFrame.longestToken)"
        case .missingPayload: "it has no payload"
        case .payloadTooLarge(let bytes, let limit):
            "the payload has \(bytes) bytes, the limit of this command is \(limit)"
        case .unknownItem(let number): "item \(number) is none of 1 to 5"
        case .repeatedItem(let item): "item \(item.rawValue) (\(item)) occurs twice"
        case .itemLength(let item, let bytes):
            "item \(item.rawValue) (\(item)) has \(bytes) bytes in place of "
                + "\(item.fixedLength ?? 0)"
        case .itemBeyondFrame(let item, let announced, let left):
            "item \(item.rawValue) (\(item)) announces \(announced) bytes, and the frame has "
                + "\(left) left"
        case .itemHeaderCut(let bytes):
            "the frame ends \(bytes) bytes into the 3-byte header of an item"
        case .oneByteLengths:
            "its items have lengths of one byte; the format has two, so the sender must be changed"
        case .unknownPriority(let number):
            "priority \(number) is none of 10 and 5, which this interface has"
        }
    }
}

/// A frame that a decoder refused, with the values that an answer needs.
package struct BinaryRefusal: Hashable, Sendable, CustomStringConvertible {
    /// The number of the first byte of the frame, counted from 0 at the start of the connection.
    package let offset: Int
    /// The first byte of the frame.
    package let command: UInt8
    /// The identifier; nil where the frame has none, or the fault lies before it.
    package let identifier: UInt32?
    /// The fault.
    package let fault: BinaryFault

    /// The packet that a gateway sends before it closes; nil for command 0, for which it only closes
    /// (Apple, "Legacy Notification Format"). A frame without identifier is answered with 0.
    package var answer: BinaryErrorPacket? {
        guard command != BinaryCommand.simple.rawValue else { return nil }
        return BinaryErrorPacket(fault.status, identifier: identifier ?? 0)
    }

    /// One clause for messages and reports.
    package var description: String {
        let name = identifier.map { ", identifier \($0)" } ?? ""
        return "the frame at byte \(offset) (command \(command)\(name)): \(fault)"
    }
}
