// The outcome of a request. A sender treats its three kinds differently. An answer is final. A
// request that the peer did not process may be sent again (RFC 9113 section 8.7). Any other request
// may or may not have been delivered.

/// The outcome of one request.
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

    /// The reasons why a request was certainly not processed.
    package enum NotProcessed: Sendable, Equatable {
        /// Its stream is above the last one of a GOAWAY (RFC 9113 section 6.8).
        case goAway
        /// RST_STREAM with REFUSED_STREAM.
        case refused
        /// The connection ended before TLS was given its last byte, so it cannot have arrived whole.
        case notSent
        /// Its stream ended before its last byte was written, and our RST_STREAM keeps it from becoming whole.
        case incomplete(Incomplete)
    }

    /// The reasons why a stream ended in the middle of its request.
    package enum Incomplete: Sendable, Equatable {
        /// Flow control held its last bytes back until its time passed.
        case heldBack
        /// The peer accepted it, or sent a malformed answer.
        case breach
        /// RST_STREAM by the peer with another code than REFUSED_STREAM.
        case reset(HTTP2ErrorCode)
    }

    /// The reasons for an unknown outcome.
    package enum Unknown: Sendable, Equatable {
        /// RST_STREAM by the peer with another code than REFUSED_STREAM.
        case reset(HTTP2ErrorCode)
        /// The connection ended before the answer, see `HTTP2ClientSession.closed`.
        case connectionLost
        /// No answer within the request's time.
        case deadline
        /// The answer violates HTTP (RFC 9113 section 8.1.1).
        case malformedAnswer
        /// The answer's header list exceeds the limit.
        case headersTooLarge
    }

    /// The caller's key of the request.
    package let key: UInt64
    /// The kind of outcome.
    package let kind: Kind
    /// Whether the answer's body exceeded the limit and was truncated.
    package let isTruncated: Bool
    /// The position of its bytes in the batch.
    let offset: Int
    let fieldsLength: Int
    /// The number of bytes of the body that were kept.
    package let bodyLength: Int
}

/// The outcomes of one exchange, in any order, with the bytes of their answers.
package struct HTTP2OutcomeBatch: Sendable {
    package private(set) var outcomes: [HTTP2Outcome] = []
    private var bytes: [UInt8] = []

    /// The body of an answer of this batch; empty for an outcome without an answer.
    package func body(of outcome: HTTP2Outcome) -> ArraySlice<UInt8> {
        let start = outcome.offset + outcome.fieldsLength
        return bytes[start..<start + outcome.bodyLength]
    }

    /// A field of an answer of this batch. `field` is its index in
    /// `HTTP2ClientSettings.keptFields`. Nil when it is absent; the first value when it occurs
    /// several times.
    package func value(of field: Int, in outcome: HTTP2Outcome) -> ArraySlice<UInt8>? {
        var place = outcome.offset
        let end = outcome.offset + outcome.fieldsLength
        while place < end {
            let length = Int(bytes[place + 1]) | Int(bytes[place + 2]) << 8
            if Int(bytes[place]) == field { return bytes[place + 3..<place + 3 + length] }
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
    private var answered: HTTP2Outcome.Kind? {
        (isAnswered || isTruncated) && status >= 200 ? .response(status: Int(status)) : nil
    }

    /// Whether TLS was given the whole request, when it had been given `bytesTaken` bytes.
    func isWhole(bytesTaken: UInt64) -> Bool { wholeAt <= bytesTaken }

    /// The outcome by an answer; nil without one. An early refusal is allowed (RFC 9113 section 8.1). Nobody can have
    /// accepted what is not whole; where only the socket holds its last bytes, it may become whole yet.
    private func outcomeOfAnswer(bytesTaken: UInt64) -> HTTP2Outcome.Kind? {
        guard answered != nil, status < 300, !isWhole(bytesTaken: bytesTaken) else {
            return answered
        }
        return wholeAt == .max
            ? .notProcessed(.incomplete(.breach)) : .outcomeUnknown(.malformedAnswer)
    }

    /// The outcome of the request when its stream was closed with `code`. `lastProcessed` is the
    /// last stream of the peer's GOAWAY, if it sent one.
    func kind(
        closedWith code: HTTP2ErrorCode, bytesTaken: UInt64, lastProcessed: Int32?
    ) -> HTTP2Outcome.Kind {
        if let answered = outcomeOfAnswer(bytesTaken: bytesTaken) { return answered }
        // A peer that has begun to answer has processed the request, whatever it sends afterwards.
        let canBeUntouched = status == 0
        if canBeUntouched, let lastProcessed, streamID > lastProcessed {
            return .notProcessed(.goAway)
        }
        if wasResetByPeer, code == .refusedStream, canBeUntouched { return .notProcessed(.refused) }
        if wholeAt == .max {
            return .notProcessed(.incomplete(wasResetByPeer ? .reset(code) : .breach))
        }
        if wasResetByPeer { return .outcomeUnknown(.reset(code)) }
        return .outcomeUnknown(headersTooLarge ? .headersTooLarge : .malformedAnswer)
    }

    /// The outcome of the request when the connection ended after `bytesTaken` bytes were written
    /// to TLS. An incomplete TLS record cannot be decrypted.
    func kindAtEnd(bytesTaken: UInt64, lastProcessed: Int32?) -> HTTP2Outcome.Kind {
        if let answered = outcomeOfAnswer(bytesTaken: bytesTaken) {
            // With the connection the rest of the request has ended, too.
            return answered == .outcomeUnknown(.malformedAnswer)
                ? .notProcessed(.incomplete(.breach)) : answered
        }
        if let lastProcessed, streamID > lastProcessed, status == 0 {
            return .notProcessed(.goAway)
        }
        return isWhole(bytesTaken: bytesTaken)
            ? .outcomeUnknown(.connectionLost) : .notProcessed(.notSent)
    }
}
