// Moves the proven rows of an app to the other environment. The proofs become a batch of reports, so that the guard, the
// chunks, the ledger, holds and undo are those of every other change:
//
//   proofs --listed--> batch, waiting --guard--> rows moved, chunk by chunk
//                                      \--> held --a person--> released, from any host, or discarded
//
// A run that is killed before the batch is whole leaves a draft, which the next run empties; after that, the next run of
// any kind goes on. A row that APNs called dead in the other environment is judged by that once it has moved.

import APNsProtocol
import Database
import Findings
import TokenHygiene
import TokenTable

/// The move of the rows of one app.
struct EnvironmentMove {
    let pair: EnvironmentPair
    let evidence: EvidenceRun

    private var store: TokenTable { evidence.store }
    private var batches: Batches { evidence.batches }

    /// What became of the rows, and of the reports that call some of them dead where they are now; nil where there is
    /// nothing to do.
    ///
    /// - Throws: exit 78 where no row can move; failures of the database.
    func run() throws -> (move: EvidenceRun.Result?, deaths: [EvidenceRun.Result]) {
        _ = try store.layout().movableEnvironment()
        try pair.requireOneApp()
        guard pair.isNamed, let other = pair.other else {
            let name = pair.partition.elsewhere.map { "\($0)" } ?? ""
            throw RunFailure(
                .configuration, .settings,
                "moving rows of \(pair.partition): the settings name no \(name), so no run would be about the moved rows; "
                    + "add the app with that environment under apps")
        }
        // The account of a dry run may see the token table alone.
        if try !evidence.plan.dryRun || batches.visibility() == .readable {
            if let held = try batches.holder(of: pair.partition, .proof) {
                throw RunFailure(
                    .held, .apply,
                    "moving rows of \(pair.partition): a move of \(held.reports.counting("row")) is held since "
                        + "\((held.hold?.since ?? held.opened).rfc3339); look at it with: pushsweep holds show \(held.id)"
                )
            }
            if let left = try left() {
                let result = evidence.judge(HeardBatch(left))
                return (result, try evidence.judgeDeaths(of: other.partition))
            }
        }
        let proofs = try proofs()
        guard !proofs.isEmpty else {
            // A run that was killed behind its last move has not judged them.
            return (nil, try evidence.judgeDeaths(of: other.partition))
        }
        let result = try evidence.take(
            proofs, of: pair.partition, .wrongEnvironment, .proof,
            label: "proofs of \(other.partition)")
        return (result, try evidence.judgeDeaths(of: other.partition))
    }

    /// A batch that a killed run has left.
    private func left() throws -> ReportBatch? {
        guard !evidence.plan.dryRun else { return nil }
        return try batches.all(.waiting, .applying).first {
            $0.inlet == .proof && $0.partition == pair.partition
        }
    }

    /// The proofs in the order of tokens.
    private func proofs() throws -> [TokenEvidence] {
        let search = try EnvironmentSearch(store, of: pair.stored)
        var (proofs, last) = ([TokenEvidence](), DeviceToken?.none)
        while let page = try search.next(after: last) {
            guard !evidence.context.interrupt.isTripped else { throw RunFailure.stopped }
            proofs += page.found.filter(\.knowledge.isProof).map(\.evidence)
            last = page.last
        }
        return proofs
    }
}
