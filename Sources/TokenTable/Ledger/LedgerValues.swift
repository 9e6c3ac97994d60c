import APNsProtocol
import Database
import TokenHygiene

// What the side tables have in several columns of a result.

extension SQLRows {
    /// A text; empty for any other value.
    func string(_ row: Int, _ column: Int) -> String { self[row, column].text ?? "" }

    /// The token in a column of bytes.
    func token(_ row: Int, _ column: Int) -> DeviceToken? {
        guard case .bytes(let bytes) = self[row, column] else { return nil }
        return DeviceToken(bytes)
    }

    /// The app and environment from a column on.
    func partition(_ row: Int, _ column: Int) -> Partition {
        Partition(app: string(row, column), environment: string(row, column + 1))
    }

    /// The run and the number of a part from a column on.
    func part(_ row: Int, _ column: Int) -> LedgerPart {
        LedgerPart(run: string(row, column), number: self[row, column + 1].integer ?? 0)
    }

    /// The outcomes from a column on, in the order of `Counts.columns`.
    func counts(_ row: Int, _ column: Int) -> Counts {
        let numbers = (0..<5).map { self[row, column + $0].count ?? 0 }
        return Counts(
            applied: numbers[0], already: numbers[1], newer: numbers[2], unknown: numbers[3],
            refused: numbers[4])
    }
}

extension Counts {
    /// The columns of outcomes in the side tables.
    static let columns = ["applied", "already", "newer", "unknown_tokens", "refused"]
}
