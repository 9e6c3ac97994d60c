// What a request came to. The three kinds are what a sender has to decide by: an answer is an
// answer; what the peer did not process may be sent again (RFC 9113 section 8.7); of everything
// else nobody can say whether it was delivered.

/// What one request came to.
package struct HTTP2Outcome: Sendable, Equatable {
    /// The kind of outcome.
    package enum Kind: Sendable, Equatable {
        /// The peer answered with this status, 200...599.
        case response(status: Int)
        /// The peer has not acted on the request: sending it again is safe.
        case notProcessed(NotProcessed)
        /// The request may or may not have been acted on.
        case outcomeUnknown(Unknown)
    }

    /// Why a request was certainly not processed.
    package enum NotProcessed: Sendable, Equatable {
        /// Its stream is above the last one of a GOAWAY (RFC 9113 section 6.8).
        case goAway
        /// RST_STREAM with REFUSED_STREAM.
        case refused
        /// The connection ended before its first byte was encrypted.
        case notSent
    }

    /// Why nobody knows.
    package enum Unknown: Sendable, Equatable {
        /// RST_STREAM by the peer with another code than REFUSED_STREAM.
        case reset(HTTP2ErrorCode)
        /// The connection ended first, see `HTTP2ClientSession.closed`.
        case connectionLost
        /// No answer within the request's time.
        case deadline
        /// The answer breaks HTTP (RFC 9113 section 8.1.1).
        case malformedAnswer
        /// The answer's header list is larger than we accept.
        case headersTooLarge
    }

    /// The caller's own key of the request.
    package let key: UInt64
    /// What it came to.
    package let kind: Kind
    /// The answer's body went past the limit and was cut there.
    package let isTruncated: Bool
    /// Where its bytes are in the batch.
    let offset: Int
    let fieldsLength: Int
    /// Bytes of the body that were kept.
    package let bodyLength: Int
}

/// Outcomes that were ready together, in no particular order, with the bytes of their answers.
package struct HTTP2OutcomeBatch: Sendable, RandomAccessCollection {
    private var outcomes: [HTTP2Outcome] = []
    private var bytes: [UInt8] = []

    /// The first outcome's place.
    package var startIndex: Int { 0 }
    /// One past the last outcome's place.
    package var endIndex: Int { outcomes.count }
    /// An outcome by place.
    package subscript(position: Int) -> HTTP2Outcome { outcomes[position] }

    /// The body of an answer of this batch; empty for what is no answer.
    package func body(of outcome: HTTP2Outcome) -> ArraySlice<UInt8> {
        let start = outcome.offset + outcome.fieldsLength
        return bytes[start..<start + outcome.bodyLength]
    }

    /// A field of an answer of this batch: `field` is its place in the list of fields that the
    /// session was told to keep. Nil when absent; the first one when it came several times.
    package func value(of field: Int, in outcome: HTTP2Outcome) -> ArraySlice<UInt8>? {
        var place = outcome.offset
        let end = outcome.offset + outcome.fieldsLength
        while place < end {
            let length = Int(bytes[place + 1]) | Int(bytes[place + 2]) << 8
            if Int(bytes[place]) == field {
                return bytes[place + 3..<place + 3 + length]
            }
            place += 3 + length
        }
        return nil
    }

    mutating func removeAll() {
        outcomes.removeAll(keepingCapacity: true)
        bytes.removeAll(keepingCapacity: true)
    }

    mutating func add(_ kind: HTTP2Outcome.Kind, of stream: borrowing HTTP2Stream) {
        var (fieldsLength, bodyLength) = (0, 0)
        let offset = bytes.count
        if case .response = kind {
            (fieldsLength, bodyLength) = (stream.answer.fieldsLength, stream.answer.bodyLength)
            bytes.append(contentsOf: stream.answer.bytes)
        }
        outcomes.append(
            HTTP2Outcome(
                key: stream.key, kind: kind, isTruncated: stream.isTruncated, offset: offset,
                fieldsLength: fieldsLength, bodyLength: bodyLength))
    }
}

extension HTTP2Stream {
    /// What the request came to when its stream was closed with `code`. `lastProcessed` is that of
    /// the peer's GOAWAY, if it sent one.
    func kind(closedWith code: HTTP2ErrorCode, lastProcessed: Int32?) -> HTTP2Outcome.Kind {
        if (isAnswered || isTruncated) && status >= 200 {
            return .response(status: Int(status))
        }
        // Who has begun to answer has processed the request, whatever it says afterwards.
        let canBeUntouched = status == 0
        if canBeUntouched, let lastProcessed, streamID > lastProcessed {
            return .notProcessed(.goAway)
        }
        if wasResetByPeer {
            return code == .refusedStream && canBeUntouched
                ? .notProcessed(.refused) : .outcomeUnknown(.reset(code))
        }
        return .outcomeUnknown(headersTooLarge ? .headersTooLarge : .malformedAnswer)
    }

    /// What the request came to when the connection ended after `bytesTaken` bytes of ours went
    /// into TLS.
    func kindAtEnd(bytesTaken: UInt64, lastProcessed: Int32?) -> HTTP2Outcome.Kind {
        if (isAnswered || isTruncated) && status >= 200 {
            return .response(status: Int(status))
        }
        if let lastProcessed, streamID > lastProcessed, status == 0 {
            return .notProcessed(.goAway)
        }
        // A record that TLS did not hand out whole cannot be decrypted by anybody.
        return firstByte >= bytesTaken ? .notProcessed(.notSent) : .outcomeUnknown(.connectionLost)
    }
}
