import TestSupport
import Testing

@testable import SecureTransport

@Suite("Requests in flight")
struct HTTP2StreamTableTests {
    /// The place of a request in flight. The macros cannot capture the table, which cannot be
    /// copied.
    private func found(_ handle: UInt, in table: borrowing HTTP2StreamTable) throws -> Int {
        let place = table.index(of: handle)
        return try #require(place)
    }

    @Test("a handle of an old request, or one that was never given, finds no request")
    func generations() throws {
        var table = HTTP2StreamTable()
        let old = table.insert(key: 1, deadline: .never)
        let index = try found(old, in: table)
        let strangers = [0, 2, 1 << 32, UInt.max].map { table.index(of: $0) }
        #expect(strangers == [nil, nil, nil, nil])
        table.remove(index)
        let new = table.insert(key: 2, deadline: .never)
        let (before, after, key) = (table.index(of: old), table.index(of: new), table[index].key)
        #expect(before == nil && after == index && key == 2)
    }

    /// The table beside a list of keys in the order of submission.
    @Test("any order of insertions, completions and removals keeps keys and order")
    func model() throws {
        var random = SeededGenerator("HTTP/2 stream table")
        var table = HTTP2StreamTable()
        var open: [(key: UInt64, handle: UInt)] = []
        var completed: [UInt] = []
        for key in 0..<20_000 as Range<UInt64> {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5:
                open.append((key, table.insert(key: key, deadline: .never)))
            case 5..<7 where !open.isEmpty:
                let gone = open.remove(at: .random(in: 0..<open.count, using: &random))
                table.remove(try found(gone.handle, in: table))
            case 7..<8 where !open.isEmpty:
                let gone = open.remove(at: .random(in: 0..<open.count, using: &random))
                table.complete(try found(gone.handle, in: table))
                completed.append(gone.handle)
            case 8..<9 where !completed.isEmpty:
                let gone = completed.remove(at: .random(in: 0..<completed.count, using: &random))
                table.remove(try found(gone, in: table))
            default:
                break
            }
            let (count, oldest) = (table.count, table.first.map { table[$0].key })
            try #require(count == open.count + completed.count)
            try #require(oldest == open.first?.key)
        }
        for (key, handle) in open {
            let kept = table[try found(handle, in: table)].key
            try #require(kept == key)
        }
    }
}

@Suite("Admission of requests")
struct HTTP2AdmissionTests {
    @Test(
        "the room is what both sides allow, minus the requests in flight",
        arguments: [
            // own, remote, in flight, backlog, closing, room
            (1000, 100, 0, 0, false, 100), (1000, 100, 99, 0, false, 1),
            (1, 1000, 0, 0, false, 1), (1, 1000, 1, 0, false, 0),
            (1000, 0, 0, 0, false, 0), (1000, 1, 500, 0, false, 0),
            (1000, Int(UInt32.max), 10, 0, false, 990), (1000, 1000, 0, 1 << 20, false, 0),
            (1000, 1000, 0, (1 << 20) - 1, false, 1000), (1000, 1000, 0, 0, true, 0),
        ])
    func room(own: Int, remote: Int, inFlight: Int, backlog: Int, isClosing: Bool, room: Int) {
        let admission = HTTP2Admission(
            ownMaximum: own, remoteMaximum: remote, inFlight: inFlight, backlog: backlog,
            isClosing: isClosing)
        #expect(admission.room == room)
    }
}

@Suite("The meaning of a stream's end")
struct HTTP2OutcomeTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var status: UInt16 = 0
        var isAnswered = false
        var isTruncated = false
        var wasReset = false
        var code = HTTP2ErrorCode.noError
        var last: Int32?
        /// Where its last byte ends; TLS was given 100 bytes.
        var wholeAt: UInt64 = 100
        let kind: HTTP2Outcome.Kind
        var testDescription: String {
            "status \(status) \(isAnswered ? "whole" : "part") reset \(wasReset) \(code) "
                + "last \(last.map(String.init) ?? "none") -> \(kind)"
        }
    }

    static let cases: [Case] = [
        Case(status: 200, isAnswered: true, kind: .response(status: 200)),
        // Nobody can have accepted what is not whole; to refuse it early is allowed (RFC 9113, 8.1).
        Case(
            status: 200, isAnswered: true, code: .cancel, wholeAt: .max,
            kind: .notProcessed(.incomplete(.breach))),
        Case(
            status: 200, isAnswered: true, code: .cancel, wholeAt: 101,
            kind: .outcomeUnknown(.malformedAnswer)),
        Case(
            status: 413, isAnswered: true, code: .cancel, wholeAt: .max,
            kind: .response(status: 413)),
        Case(
            wasReset: true, code: .internalError, wholeAt: .max,
            kind: .notProcessed(.incomplete(.reset(.internalError)))),
        Case(wasReset: true, code: .refusedStream, wholeAt: .max, kind: .notProcessed(.refused)),
        Case(code: .protocolError, wholeAt: .max, kind: .notProcessed(.incomplete(.breach))),
        Case(status: 410, isAnswered: true, wasReset: true, kind: .response(status: 410)),
        Case(status: 413, isAnswered: true, code: .cancel, kind: .response(status: 413)),
        Case(status: 410, isTruncated: true, code: .cancel, kind: .response(status: 410)),
        // RST_STREAM(NO_ERROR) before any answer is no answer.
        Case(wasReset: true, kind: .outcomeUnknown(.reset(.noError))),
        Case(wasReset: true, code: .refusedStream, kind: .notProcessed(.refused)),
        // A peer that has sent a status has processed the request.
        Case(
            status: 200, wasReset: true, code: .refusedStream,
            kind: .outcomeUnknown(.reset(.refusedStream))),
        Case(status: 103, isAnswered: true, kind: .outcomeUnknown(.malformedAnswer)),
        Case(code: .protocolError, kind: .outcomeUnknown(.malformedAnswer)),
        Case(code: .refusedStream, last: 5, kind: .notProcessed(.goAway)),
        Case(code: .refusedStream, last: 7, kind: .outcomeUnknown(.malformedAnswer)),
        Case(
            wasReset: true, code: .refusedStream, last: 7, kind: .notProcessed(.refused)),
        Case(wasReset: true, code: .internalError, last: 5, kind: .notProcessed(.goAway)),
    ]

    @Test("a closed stream has the meaning that the table gives it", arguments: cases)
    func closed(row: Case) {
        var stream = HTTP2Stream()
        (stream.streamID, stream.status) = (7, row.status)
        (stream.isAnswered, stream.isTruncated) = (row.isAnswered, row.isTruncated)
        stream.wasResetByPeer = row.wasReset
        stream.wholeAt = row.wholeAt
        #expect(
            stream.kind(closedWith: row.code, bytesTaken: 100, lastProcessed: row.last) == row.kind)
    }

    @Test(
        "at a connection's end only requests whose last byte TLS was given, and that the GOAWAY leaves, are unknown",
        arguments: [
            (UInt64.max, 99 as UInt64, nil as Int32?, HTTP2Outcome.Kind.notProcessed(.notSent)),
            (100, 99, nil, .notProcessed(.notSent)),
            (100, 100, nil, .outcomeUnknown(.connectionLost)),
            (100, 101, 7, .outcomeUnknown(.connectionLost)),
            (100, 101, 5, .notProcessed(.goAway)),
        ])
    func atEnd(wholeAt: UInt64, taken: UInt64, last: Int32?, kind: HTTP2Outcome.Kind) {
        var stream = HTTP2Stream()
        (stream.streamID, stream.wholeAt) = (7, wholeAt)
        #expect(stream.kindAtEnd(bytesTaken: taken, lastProcessed: last) == kind)
    }
}

@Suite("Bytes that wait for TLS")
struct HTTP2OutputTests {
    @Test("bytes come out as they went in, for any sizes")
    func order() {
        var random = SeededGenerator("HTTP/2 output")
        var output = HTTP2Output(capacity: 64)
        var (written, read): ([UInt8], [UInt8]) = ([], [])
        for _ in 0..<2_000 {
            let length = Int.random(in: 0...100, using: &random)
            let bytes = random.bytes(length)
            bytes.withUnsafeBytes { output.append($0) }
            written += bytes
            let count = Int.random(in: 0...output.count, using: &random)
            read += output.waiting.prefix(count)
            output.drop(count)
        }
        read += output.waiting
        let taken = output.taken
        #expect(read == written)
        #expect(taken + UInt64(output.count) == UInt64(written.count))
    }
}
