import APNsProtocol
import Operations

/// A token that the command line gives, or the file that has it; `-` is standard input. Words of a command
/// line are seen by other users of the machine, and stay in the history of the shell.
struct GivenToken {
    /// The text of the command line; `-` reads standard input.
    let text: String?
    /// The path of a file with the token alone.
    let file: String?
    /// The name of `text` in messages.
    let name: String

    /// The token.
    ///
    /// - Throws: usage for a text that is none, or a file that has not exactly one.
    func token(_ context: RunContext) throws -> DeviceToken {
        guard let file = file ?? (text == "-" ? "-" : nil) else {
            return try parsed(text ?? "", from: name)
        }
        let source = try GivenSource(
            file, doing: "reading the token from", at: .settings, context.interrupt)
        let lines = try source.lines(atMost: 1 << 20).filter { !$0.isEmpty }
        guard lines.count == 1 else {
            throw RunFailure(
                .usage, .settings,
                "reading the token from \(source.name): it has \(lines.count.counting("line")) with text "
                    + "instead of one; give one token")
        }
        return try parsed(lines[0], from: source.name)
    }

    /// The token that a text spells. The message never repeats the text.
    private func parsed(_ text: String, from place: String) throws(RunFailure) -> DeviceToken {
        do throws(DeviceTokenRefusal) {
            return try DeviceToken(spelling: text)
        } catch {
            throw RunFailure(
                .usage, .settings,
                "reading \(place): it is no device token in hex (\(error)); give all its digits, as the "
                    + "token table or the device has them")
        }
    }
}
