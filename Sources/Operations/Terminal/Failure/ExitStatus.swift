// The exit code tells a script what an operator has to do next, so there is one code per reaction and
// not one per cause. When several apply, the one with the most urgent reaction wins. The table is
// part of the version promise; `pushsweep help exit-codes` prints it.

import APNsProtocol
import EvidenceJournal
import TokenHygiene
import TokenTable

/// The exit code of a run; values follow sysexits(3) where one fits.
package enum ExitStatus: Int32, Hashable, Sendable, CaseIterable {
    /// Done, also when there was nothing to do.
    case done = 0
    /// The gate of `preflight` is shut: it found what its `--fail-on` names. Nothing failed.
    case shut = 2
    /// The guard stopped a removal, which waits for a person; nothing of that set changed.
    case held = 3
    /// Another run holds the lock of the state folder, or the lease on the token table.
    case locked = 4
    /// The command line is wrong.
    case usage = 64
    /// Some input was bad and is quarantined, or some rows refused a change; the rest is applied.
    case quarantined = 65
    /// Gateway or database cannot be reached; nothing was read.
    case unreachable = 69
    /// An invariant does not hold: a defect of this program.
    case invariant = 70
    /// Output or state cannot be created.
    case cannotCreate = 73
    /// Reading or writing the state folder failed.
    case journal = 74
    /// Evidence is durable but not applied; the next run continues.
    case pending = 75
    /// The gateway broke the protocol.
    case protocolBroken = 76
    /// A permission is missing, or a secret file is open to others.
    case permission = 77
    /// A setting, certificate or table is wrong or does not match.
    case configuration = 78

    /// From most to least urgent.
    package static let byUrgency: [ExitStatus] = [
        .invariant, .journal, .cannotCreate, .permission, .configuration, .held, .shut,
        .protocolBroken,
        .quarantined, .pending, .unreachable, .usage, .locked, .done,
    ]

    /// The more urgent of two codes.
    package static func worse(_ one: ExitStatus, _ two: ExitStatus) -> ExitStatus {
        byUrgency.first { $0 == one || $0 == two } ?? .invariant
    }

    /// The meaning as a clause for help texts and documentation.
    package var meaning: String { words.meaning }

    /// The word in the closing line that names the next action.
    package var next: String { words.next }

    private var words: (next: String, meaning: String) {
        switch self {
        case .done: ("none", "done, also when there was nothing to do")
        case .shut: ("findings", "preflight: the gate is shut, see its findings")
        case .held: ("holds", "held: a removal was stopped and waits for a person")
        case .locked: ("wait", "another run holds the lock, here or on another host")
        case .usage: ("usage", "usage")
        case .quarantined:
            (
                "quarantine",
                "some input was bad and is quarantined, or rows refused a change; the rest is applied"
            )
        case .unreachable: ("rerun", "gateway or database unreachable, nothing read")
        case .invariant:
            ("report", "an invariant broke: a defect of pushsweep, please report it")
        case .cannotCreate: ("disk", "cannot create output or state, or too little disk space")
        case .journal: ("disk", "journal I/O error")
        case .pending: ("rerun", "evidence is durable but not applied; the next run continues")
        case .protocolBroken:
            (
                "gateway",
                "the gateway broke the protocol or ended the connection without a proper close"
            )
        case .permission: ("check", "permission: a grant, a file mode")
        case .configuration: ("check", "configuration: a setting, a certificate, a table")
        }
    }
}

extension ExitStatus {
    /// The exit code for a batch that was judged. It depends on whether all of it could be used.
    static func following(_ batch: ReportBatch, _ counts: Counts) -> ExitStatus {
        switch batch.ending {
        // Silence inside a tuple is a fault of the connection, not bad input. The fragment is
        // kept, and the list may continue next time.
        case .timeout: .pending
        case _ where counts.quarantined > 0 || batch.quarantinedBytes > 0: .quarantined
        case _ where counts.refused > 0: .quarantined
        default: .done
        }
    }

    /// The exit code for the reading of a list: whether the gateway kept to the protocol.
    static func following(_ end: CaptureEnd) -> ExitStatus {
        switch end {
        case .closeNotify, .idle, .file: .done
        case .cut, .reset, .broken: .protocolBroken
        // The cause is on our side, and a message reports it. The gateway kept to the protocol,
        // and the bytes read are applied.
        case .crashed, .stopped, .full: .done
        // The list may go on next time.
        case .slow: .pending
        }
    }
}
