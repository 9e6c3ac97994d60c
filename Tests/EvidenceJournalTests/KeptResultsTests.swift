import APNsProtocol
import TestSupport
import Testing
import TokenHygiene

@testable import EvidenceJournal

@Suite("Kept results")
struct KeptResultsTests {
    private static func random(_ random: inout SeededGenerator) -> KeptResults {
        let outcomes: [Outcome] = [
            .sent, .returned, .gone(reason: "Unregistered"), .failed(reason: "BadDeviceToken"),
            .unknown(reason: ""), .retry(seconds: 86_400, reason: "TooManyRequests"),
            .skipped(.stale),
        ]
        let results = (0..<Int.random(in: 0..<40, using: &random)).map { _ in
            DeliveryResult(
                key: Int64.random(in: Int64.min...Int64.max, using: &random),
                outcomes.one(&random))
        }
        let heard = (0..<Int.random(in: 0..<4, using: &random)).map { _ in
            HeardReport(
                row: Int64.random(in: Int64.min...Int64.max, using: &random),
                token: .numbered(Int.random(in: 0..<1_000, using: &random)),
                source: EvidenceSource.allCases.one(&random),
                time: EpochMilliseconds(Int64.random(in: Int64.min...Int64.max, using: &random)))
        }
        return KeptResults(
            claim: Int64.random(in: 1...Int64.max, using: &random),
            from: ReportOrigin(
                Partition(app: "čat", environment: "sandbox"), gateway: "[::1]:443"), results,
            heard: heard)
    }

    @Test("they read back from their own bytes, and from no part of them")
    func roundTrip() {
        var random = SeededGenerator("kept results")
        for _ in 0..<200 {
            let kept = Self.random(&random)
            let bytes = kept.encoded
            #expect(KeptResults(bytes) == kept)
            for count in 0..<min(bytes.count, 9) {
                #expect(KeptResults(Array(bytes.prefix(count))) == nil)
            }
            let cut = KeptResults(Array(bytes.dropLast()))
            #expect(kept.results.isEmpty && kept.heard.isEmpty ? cut == nil : cut != kept)
        }
    }

    @Test("other bytes are refused or are other results, and never stop the program")
    func damaged() {
        var random = SeededGenerator("damaged results")
        for _ in 0..<2_000 {
            var bytes = Self.random(&random).encoded
            bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(
                in: 0...255, using: &random)
            if let kept = KeptResults(bytes) { #expect(KeptResults(kept.encoded) == kept) }
        }
    }

    @Test("a reason longer than the queue keeps is cut")
    func longReason() {
        let long = String(repeating: "x", count: 300)
        let kept = KeptResults(
            KeptResults(
                claim: 1, from: ReportOrigin(.noApp, gateway: ""),
                [DeliveryResult(key: 1, .failed(reason: long))]
            ).encoded)
        #expect(
            kept?.results
                == [DeliveryResult(key: 1, .failed(reason: String(repeating: "x", count: 64)))])
    }
}
