import APNsProtocol
import APNsSimulator

extension RequestLog {
    /// The ids that were accepted more than once: notifications that a user saw twice, unless the
    /// device merged them.
    package var acceptedTwice: Set<APNsID> {
        var seen: Set<APNsID> = []
        return Set(records.filter(\.isAccepted).map(\.id).filter { !seen.insert($0).inserted })
    }
}

extension BinaryLog {
    /// The number of accepted notifications by token.
    package var acceptedByToken: [DeviceToken: Int] {
        accepted.reduce(into: [:]) { $0[$1.token, default: 0] += 1 }
    }
}
