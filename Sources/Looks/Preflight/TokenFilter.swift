// Passes the lines whose tokens may be sent to, in their order and without a change of their bytes.
//
// Tens of millions of lines may come, and most tokens are living. So the tokens that may be stale are read
// once, as fingerprints, and only a hit is looked up in the database. Where the fingerprints do not fit
// into the memory, and under --only-known, every token is looked up, many at a time.
//
// Lines are decided block by block: the questions of a block are answered together, then the lines between
// the dropped ones are written. Memory is that of the set and of a few blocks, whatever the input.

import APNsProtocol
import Database
import Encodings
import Operations
import Settings
import TokenHygiene
import TokenTable

/// What `preflight --filter` did with the lines of its list.
package struct FilterCounts: Encodable, Hashable, Sendable {
    /// Lines with anything but spaces. The sum of the next five.
    package internal(set) var read = 0
    /// Lines that were passed on.
    package internal(set) var passed = 0
    /// Lines dropped because the token is stale.
    package internal(set) var stale = 0
    /// Lines dropped because no row has the token, under `--only-known`.
    package internal(set) var unknown = 0
    /// Lines dropped because they are not tokens.
    package internal(set) var malformed = 0
    /// Lines dropped because APNs called the token bad, under `--without-suspects`.
    package internal(set) var suspect = 0
}

/// Filters lines of tokens by the token table.
package struct TokenFilter {
    private let plan: PreflightPlan
    private let context: RunContext
    private let store: TokenTable
    private let lookup: TokenStatusLookup
    private let marked: TokenFingerprints?
    /// Among them those that are stale for certain, by their rows at `decidedAt`; nil where none is known to be.
    private let decided: TokenFingerprints?
    private let decidedAt = ContinuousClock.now
    /// How long that counts. A device may register again meanwhile, and lines may come slowly.
    private static let decisionsCount = Duration.seconds(30)
    /// The suspects, where they are dropped and there are any.
    private let suspects: Suspects?
    private let suspectsSince: EpochMilliseconds
    private let write: (UnsafeRawBufferPointer) -> Bool
    private let hex = HexLine()
    private var counts = FilterCounts()
    private var output: [UInt8] = []

    /// Bytes that are gathered before they are written.
    private static let mostOutput = 1 << 20

    /// The end of a filter: its counts, and the run that applied what waited.
    package typealias End = (counts: FilterCounts, applied: RunOutcome<SweepReport>?)

    /// Passes on the lines that may be sent to. `write` gets their bytes, and returns false when nobody
    /// reads them any more. Unless the plan only reads, what waits is applied before, once the lines are open.
    ///
    /// - Throws: `RunFailure` where the table or the lines cannot be read; lines that were passed on
    ///   before are not taken back.
    package static func run(
        _ plan: PreflightPlan, _ context: RunContext,
        write: @escaping (UnsafeRawBufferPointer) -> Bool
    ) throws -> End {
        var applied: RunOutcome<SweepReport>?
        do {
            let lines = try GivenSource(
                plan.lines ?? "-", doing: "reading tokens from", at: .settings, context.interrupt)
            if !plan.readOnly {
                try lines.lookAhead()
                applied = try Preflight.applyWaiting(plan.settings, context)
            }
            for failure in applied?.failures ?? [] {
                context.log.warning("what waits could not be applied: \(failure)")
            }
            var filter = try TokenFilter(plan, context, write)
            try filter.filter(lines)
            return (filter.counts, applied)
        } catch {
            throw RunFailure.ofReading(error).after(applied?.report.closingCounts)
        }
    }

    private init(
        _ plan: PreflightPlan, _ context: RunContext,
        _ write: @escaping (UnsafeRawBufferPointer) -> Bool
    ) throws {
        (self.plan, self.context, self.write) = (plan, context, write)
        store = try TokenTable.forDecisions(plan.settings)
        if try store.isReplica() {
            context.log.warning(
                """
                \(plan.settings.store.location): a replica answers, so tokens are filtered by rows that may lack the latest \
                marks and registrations
                """)
        }
        let partition = plan.app.storedPartition
        try store.require(.read, partitions: [partition], judgingRows: false)
        lookup = try store.tokenStatuses(in: partition)
        if plan.withoutSuspects {
            let suspects = Suspects(store)
            guard try suspects.decides() else {
                throw RunFailure(
                    .configuration, .store,
                    "looking for suspects: there is no table pushsweep_suspect; run `pushsweep schema apply`, or leave "
                        + "--without-suspects out")
            }
            self.suspects = try suspects.isEmpty() ? nil : suspects
            suspectsSince = try store.session.databaseTime().advanced(
                by: -Suspects.recentDays * 86_400_000)
        } else {
            (suspects, suspectsSince) = (nil, EpochMilliseconds(0))
        }
        (marked, decided) =
            plan.onlyKnown
            ? (nil, nil) : try Self.marked(store, partition, plan.memory, suspects, context)
    }

    private static func marked(
        _ store: TokenTable, _ partition: Partition, _ memory: Int, _ suspects: Suspects?,
        _ context: RunContext
    ) throws -> (TokenFingerprints?, TokenFingerprints?) {
        guard memory > 0 else { return (nil, nil) }
        let sets = try store.judgesMarksAlone() ? 2 : 1
        var set = TokenFingerprints(mostBytes: memory / sets)
        var decided = sets == 2 ? TokenFingerprints(mostBytes: memory / sets) : nil
        let (interrupt, progress) = (context.interrupt, context.progress)
        try store.addMarkedTokens(
            of: partition, to: &set, decided: &decided, shouldStop: { interrupt.isTripped },
            progress: { progress.show("tokens with a mark", $0, of: nil) })
        progress.clear()
        var last: DeviceToken?
        while let page = try suspects?.page(of: partition, after: last), !page.isEmpty {
            for suspect in page { _ = set.insert(suspect.token) }
            if interrupt.isTripped { throw RunFailure.stopped }
            last = page.last?.token
        }
        if interrupt.isTripped { throw RunFailure.stopped }
        guard set.isIncomplete else { return (set, decided) }
        context.log.notice(
            """
            the tokens with a mark do not fit into \(memory >> 20) MiB, so each token is looked up; \
            raise --memory for more speed
            """)
        return (nil, nil)
    }

    private mutating func filter(_ source: GivenSource) throws {
        try source.lines { block, isCut in
            guard isCut else {
                let isRead = try pass(block)
                context.progress.show("lines", counts.read, of: nil)
                return isRead
            }
            // No token is so long.
            counts.read += 1
            counts.malformed += 1
            return true
        }
        context.progress.clear()
    }

    /// Passes on the lines of a block; false when nobody reads them any more.
    private mutating func pass(_ block: UnsafeRawBufferPointer) throws -> Bool {
        let isFresh = ContinuousClock.now - decidedAt < Self.decisionsCount
        let decided = isFresh ? decided : nil
        var stale = 0
        // Dropped and doubtful lines in their order; nil is a dropped one.
        var doubtful: [(line: Range<Int>, token: DeviceToken?)] = []
        var lines = 0
        var dropped = 0
        hex.withBuffer { buffer in
            block.eachLine { line in
                guard !line.text.isEmpty else {
                    doubtful.append((line.whole, nil))
                    return
                }
                lines += 1
                let text = UnsafeRawBufferPointer(rebasing: block[line.text])
                if let marked, let count = hex.read(text, into: buffer) {
                    let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
                    guard marked.contains(marked.fingerprint(bytes)) else { return }
                    let isStale = decided.map { $0.contains($0.fingerprint(bytes)) } ?? false
                    if isStale { stale += 1 }
                    doubtful.append((line.whole, isStale ? nil : DeviceToken(bytes)))
                } else if let token = try? DeviceToken(spelling: Array(text)) {
                    if let marked {
                        let print = token.bytes.withUnsafeBytes { marked.fingerprint($0) }
                        guard marked.contains(print) else { return }
                    }
                    doubtful.append((line.whole, token))
                } else {
                    dropped += 1
                    doubtful.append((line.whole, nil))
                }
            }
        }
        counts.read += lines
        counts.malformed += dropped
        counts.stale += stale
        let tokens = doubtful.compactMap(\.token)
        let statuses = try store.statuses(of: tokens, by: lookup)
        // What APNs knew before is no fault of the token, and after a week it may be asked again.
        let bad =
            try suspects?.open(
                among: tokens, of: plan.app.storedPartition, since: suspectsSince, neverKnown: true
            ) ?? []
        var start = 0
        for (line, token) in doubtful {
            if let token, isPassed(statuses[token] ?? .unknown, isBad: bad.contains(token)) {
                continue
            }
            try append(block[start..<line.lowerBound])
            start = line.upperBound
        }
        try append(block[start..<block.count])
        counts.passed =
            counts.read - counts.malformed - counts.stale - counts.unknown
            - counts.suspect
        return flush()
    }

    private mutating func isPassed(_ status: TokenStatus, isBad: Bool) -> Bool {
        switch status {
        case .living:
            if isBad { counts.suspect += 1 }
            return !isBad
        case .stale:
            counts.stale += 1
            return false
        case .unknown:
            guard plan.onlyKnown else { return true }
            counts.unknown += 1
            return false
        }
    }

    private mutating func append(_ bytes: Slice<UnsafeRawBufferPointer>) throws {
        guard !bytes.isEmpty else { return }
        output.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes))
        if output.count >= Self.mostOutput, !flush() { output.removeAll() }
    }

    private mutating func flush() -> Bool {
        defer { output.removeAll(keepingCapacity: true) }
        return output.isEmpty || output.withUnsafeBytes { write($0) }
    }
}

/// Reads lines of plain hex without an allocation.
private struct HexLine {
    /// The value of each byte as a digit; 255 for one that is none.
    private let values: [UInt8] = (0...255).map { Hex.value(of: UInt8($0)) ?? 255 }
    /// The longest token that is read here, in bytes.
    private static let longest = 256

    func withBuffer(_ body: (UnsafeMutableRawBufferPointer) -> Void) {
        withUnsafeTemporaryAllocation(byteCount: Self.longest, alignment: 8, body)
    }

    /// Writes the bytes of a token; returns their number, or nil for a text of another form.
    func read(_ text: UnsafeRawBufferPointer, into bytes: UnsafeMutableRawBufferPointer) -> Int? {
        let count = text.count / 2
        guard text.count % 2 == 0, count > 0, count <= Self.longest else { return nil }
        return values.withUnsafeBufferPointer { values in
            var wrong: UInt8 = 0
            for place in 0..<count {
                let high = values[Int(text[2 * place])]
                let low = values[Int(text[2 * place + 1])]
                wrong |= high | low
                bytes[place] = high << 4 | low & 15
            }
            return wrong < 16 ? count : nil
        }
    }
}
