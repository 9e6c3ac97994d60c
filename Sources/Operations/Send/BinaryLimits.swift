import APNsProtocol
import Settings

// The binary interface has fewer fields than HTTP/2, and smaller ones. A notification that does not fit is
// refused before it is queued: in the queue it would fail long after the person who queued it has gone.

/// The limits of an app's binary gateway for what is queued. Sources: Apple, "Binary Provider API" and
/// "Legacy Notification Format" (archived).
struct BinaryLimits {
    /// The command of the frames.
    let command: BinaryCommand

    /// The limits for an app; nil for one that sends over HTTP/2.
    init?(_ app: Settings.App) {
        guard let binary = app.binary else { return nil }
        command = binary.frameCommand
    }

    /// Why the content cannot be sent, as a clause with what to do; nil where it can.
    func refusal(of content: Enqueue.Content) -> String? {
        do throws(BinaryFault) {
            try BinaryFrame.checkPayload(bytes: content.payload.count, of: command)
        } catch {
            let more =
                command == .framed
                ? ""
                : ", or set binary.command: 2, which takes \(BinaryCommand.framed.payloadLimit)"
            return
                "\(error) (command \(command.rawValue) of the binary interface); shorten it\(more)"
        }
        if content.collapseID != nil {
            return "--collapse-id: the binary interface has no collapse identifier; leave it out"
        }
        if let type = content.pushType, PushType(rawValue: type).map(Self.types.contains) != true {
            return
                "--push-type \(type.prefix(40)): the binary interface has no push types, and only "
                + "\(Self.types.map(\.rawValue).joined(separator: " and ")) can be expressed by the "
                + "payload; give one of them, or leave it out"
        }
        if content.expiration != nil, command == .simple {
            return
                "--expiration: command 0 of the binary interface has no expiration; leave it out, "
                + "or set binary.command: 1 or 2"
        }
        guard let priority = content.priority else { return nil }
        guard command == .framed else {
            return
                "--priority: command \(command.rawValue) of the binary interface has no priority; "
                + "leave it out, or set binary.command: 2"
        }
        guard priority == NotificationPriority.lowest.rawValue else { return nil }
        return "--priority 1: the binary interface has the priorities 10 and 5; give 5"
    }

    /// The content as the interface has it. A push type that only follows from the payload is not kept: the
    /// interface has none, and the queue may have no column for it. Of a background notification the
    /// priority is left, where the command has one.
    func adapted(_ content: Enqueue.Content) -> Enqueue.Content {
        guard content.impliesPushType else { return content }
        var adapted = content
        adapted.pushType = nil
        if command == .framed {
            adapted.priority = content.priority ?? Int(NotificationPriority.conserving.rawValue)
        }
        return adapted
    }

    /// Whether a token fits into a frame.
    func fits(_ token: DeviceToken) -> Bool { token.count <= BinaryFrame.longestToken }

    /// What is wrong with tokens that do not fit.
    static let longToken =
        "longer than \(BinaryFrame.longestToken) bytes, the limit of the binary interface"

    private static let types: [PushType] = [.alert, .background]
}

extension Settings.Binary {
    /// The command of the frames.
    var frameCommand: BinaryCommand { BinaryCommand(rawValue: UInt8(command)) ?? .framed }
}
