// What a journal has of a list that is no usable evidence goes into the quarantine of the database before the list's
// batch, so that a list which is closed has nothing left here. Keeping a part again changes nothing, so a kill in
// between needs no checkpoint.

import APNsProtocol
import Encodings
import EvidenceJournal
import TokenHygiene
import TokenTable

extension Pouring {
    /// Moves the quarantine of a list into the database. The list's bytes stay in the journal.
    ///
    /// - Throws: failures of journal and database. What is moved stays moved.
    func pourQuarantine(of list: CapturedList) throws {
        let places = try journal.quarantined(of: list.id)
        guard !places.isEmpty, !list.isPurged else { return }
        var parts = PartCutting(places)
        let quarantine = Quarantine(evidence.store)
        try journal.forEachChunk(of: list.id) { chunk in
            try parts.take(chunk) { try quarantine.keep($0, of: list.id) }
        }
        try quarantine.keep(parts.end(), of: list.id)
    }
}

/// Cuts quarantined places out of the bytes of a list. Each tuple or 8 KiB is a part, so that nothing of what a
/// gateway has forgotten is lost.
private struct PartCutting {
    /// Parts that are kept at once.
    private static let most = 500

    private let places: [Quarantined]
    /// The place that is cut next, and the offset of the next byte of the list.
    private var (next, offset) = (0, 0)
    /// The bytes of the current part, its start and its length so far.
    private var bytes: [UInt8] = []
    private var (start, length) = (0, 0)
    private var parts: [QuarantinedPart] = []

    init(_ places: [Quarantined]) { self.places = places }

    mutating func take(
        _ chunk: UnsafeRawBufferPointer, keep: ([QuarantinedPart]) throws -> Void
    ) throws {
        for byte in chunk {
            defer { offset += 1 }
            while next < places.count, offset >= places[next].offset + places[next].length {
                next += 1
            }
            guard next < places.count, offset >= places[next].offset else { continue }
            let place = places[next]
            if length == 0 { start = offset }
            length += 1
            if bytes.count < QuarantinedPart.mostBytes { bytes.append(byte) }
            let isEnd = offset + 1 == place.offset + place.length
            if isEnd || length == QuarantinedPart.mostBytes { cut(place) }
            guard parts.count >= Self.most else { continue }
            try keep(parts)
            parts.removeAll(keepingCapacity: true)
        }
    }

    /// What is left.
    mutating func end() -> [QuarantinedPart] {
        if length > 0, next < places.count { cut(places[next]) }
        return parts
    }

    private mutating func cut(_ place: Quarantined) {
        parts.append(
            QuarantinedPart(
                place: start, bytes: bytes, length: length,
                reason: EvidenceRejection(rawValue: place.reason)?.description ?? place.reason,
                token: token))
        (bytes, length) = ([], 0)
    }

    /// The token that the current part names.
    private var token: DeviceToken? {
        var (decoder, tuples) = (FeedbackDecoder(), [FeedbackTuple]())
        bytes.withUnsafeBytes { decoder.decode($0, into: &tuples) }
        return tuples.count == 1 ? tuples[0].token : nil
    }
}

extension DeviceToken {
    /// The first token that is spelled in hex within other text, of at least 32 bytes and with no digit beside it;
    /// nil without one.
    init?(firstIn text: [UInt8]) {
        var digits: [UInt8] = []
        for byte in text + [0] {
            if Hex.value(of: byte) != nil {
                digits.append(byte)
            } else if digits.count >= 64, let token = try? DeviceToken(spelling: digits) {
                self = token
                return
            } else {
                digits.removeAll(keepingCapacity: true)
            }
        }
        return nil
    }
}
