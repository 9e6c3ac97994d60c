import TokenHygiene
import TokenStore
enum StoreNeed { case read, apply(RemovalPolicy) }
struct StoreReport { var warnings: [String] = [] }
extension TokenStore {
    func preflight(_ need: StoreNeed) throws(StoreFailure) -> StoreReport { StoreReport() }
    func recordRun(_ run: String, kind: String, host: String, started: String, summary: String)
        throws(StoreFailure)
    {}
}
