import APNsProtocol
import EvidenceJournal
import TokenHygiene
import TokenTable

/// A batch with its evidence: in the memory of the run that took it in, else in the database.
struct HeardBatch {
    /// Where the evidence is read.
    enum Home {
        case database
        /// On this host.
        case sorted(SortedEvidence)
        case listed([TokenEvidence])
        /// In these batches, of which it would be judged again; for a dry run.
        case earlier([String], ReportFilter)
    }

    var batch: ReportBatch
    let home: Home
    /// Whether the database has its reports. Those of a list that it does not have are stored as they are decided.
    var isStored = true
    /// The grace period by which its rows were found, in this run.
    var grace: GracePeriod?

    init(_ batch: ReportBatch, _ home: Home = .database) { (self.batch, self.home) = (batch, home) }

    /// The evidence behind a token, or all of it.
    func stream(after position: DeviceToken?, in store: TokenTable) -> any EvidenceStream {
        switch home {
        case .database:
            StoredReports(of: batch.id, after: position, in: store)
        case .sorted(let sorted): sorted.stream(after: position)
        case .listed(let evidence): ListedEvidence(evidence, after: position)
        case .earlier(let names, let which):
            MergedEvidence(
                names.map { StoredReports(of: $0, after: position, which, in: store) })
        }
    }

    /// Number of distinct tokens, and of those that share the most frequent time.
    func spread(in store: TokenTable) throws -> (tokens: Int, atOneTime: Int) {
        switch home {
        case .database: return try store.spread(ofBatches: [batch.id])
        case .sorted(let sorted):
            return (sorted.count, batch.source == .feedback ? try sorted.tokensAtOneTime() : 0)
        case .listed(let evidence):
            // Only a gateway's list says something by its times.
            return (evidence.count, 0)
        case .earlier: return (batch.reports, 0)
        }
    }
}
