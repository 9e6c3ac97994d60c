import APNsProtocol

/// Single reports, in the order of tokens and numbers, as evidence: each token once, with all of its times.
package struct GroupedReports<Source: ReportSource>: EvidenceStream {
    private var source: Source
    /// Reports that were read and not yet grouped.
    private var page: ArraySlice<NumberedReport> = []

    package init(_ source: Source) { self.source = source }

    /// The next tokens, at most `limit`; throws what the source throws.
    package mutating func next(_ limit: Int) throws -> [TokenEvidence] {
        var found: [TokenEvidence] = []
        found.reserveCapacity(limit)
        while true {
            if page.isEmpty { page = try source.next(limit)[...] }
            guard let report = page.first else { return found }
            if let last = found.indices.last, found[last].token == report.token {
                found[last].add(earlier: report.time)
            } else if found.count == limit {
                return found
            } else {
                found.append(TokenEvidence(token: report.token, time: report.time))
            }
            page.removeFirst()
        }
    }
}
