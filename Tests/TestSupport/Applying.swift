import Foundation
import TokenHygiene
import TokenStore

extension TokenStore {
    /// Applies evidence as one feed of its own.
    @discardableResult
    package func apply(
        _ evidence: [TokenEvidence], app: String = "chat", environment: String = "production",
        policy: RemovalPolicy = RemovalPolicy(), feed: String = UUID().uuidString.lowercased(),
        run: String = UUID().uuidString.lowercased(), shouldStop: () -> Bool = { false },
        report: (FeedProgress) -> Void = { _ in }
    ) throws -> FeedProgress {
        var list = EvidenceList(evidence)
        let application = FeedApplication(
            run: run, feed: feed, partition: Partition(app: app, environment: environment),
            policy: policy, source: .feedback)
        return try apply(&list, application, shouldStop: shouldStop, report: report)
    }

    /// Classifies evidence.
    package func classify(
        _ evidence: [TokenEvidence], app: String = "chat", environment: String = "production",
        policy: RemovalPolicy = RemovalPolicy()
    ) throws -> Classification {
        var list = EvidenceList(evidence)
        return try classify(
            &list, in: Partition(app: app, environment: environment), policy: policy)
    }
}
