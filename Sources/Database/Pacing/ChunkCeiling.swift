// A cluster may limit the size of a transaction: Galera by wsrep_max_ws_rows and wsrep_max_ws_size, a
// server with a binary log by max_binlog_cache_size. A chunk beyond the limit fails as a whole, and how
// many rows would fit is unknown, since ledger, checkpoint and side tables count too. So the chunk halves
// until it fits, down to one entry. The limit is that of the server, so it holds for all later chunks of
// the connection:
//
//   no ceiling --refused at n--> ceiling n/2 --many chunks committed--> ceiling doubled
//
// One chunk of unusually large rows must not slow the whole run down, so the ceiling rises again after
// some chunks. Each refusal doubles their number, so that a fixed limit is seldom tried again.

/// The most entries that a chunk may have, as the server's refusals teach. Confined to the store's
/// thread, shared by all changes over one connection.
package final class ChunkCeiling {
    /// The most entries of the next chunk.
    private(set) var entries = Int.max
    /// Chunks committed since the ceiling last moved.
    private var committedChunks = 0
    /// The number of chunks after which the ceiling rises.
    private var rising = 8

    /// Starts without a limit.
    init() {}

    /// Halves the ceiling below a chunk that was too large; false where it had one entry.
    func refused(_ size: Int) -> Bool {
        guard size > 1 else { return false }
        entries = size / 2
        committedChunks = 0
        rising = min(rising * 2, 4_096)
        return true
    }

    /// Counts a committed chunk.
    func committed() {
        guard entries < ChunkSizing.range.upperBound else { return }
        committedChunks += 1
        guard committedChunks >= rising else { return }
        entries *= 2
        committedChunks = 0
    }

    /// The sentence for the run's log. It names the setting with its value, and no size of a chunk, so
    /// that it is the same each time.
    func notice(of failure: SQLFailure, on connection: any SQLConnection) -> String {
        let name = failure.limitOfSize
        let rows = try? connection.query(
            "SHOW GLOBAL VARIABLES WHERE Variable_name = \(connection.dialect.literal(name))")
        let value = rows.flatMap { $0.count > 0 ? $0[0, 1].text : nil }.map { " = \($0)" } ?? ""
        return "makes smaller transactions, because the server refuses larger ones "
            + "(\(failure.message), \(failure.code)): \(name)\(value); nothing has to be done, "
            + "a higher limit is faster"
    }
}
