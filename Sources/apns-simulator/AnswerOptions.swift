import APNsProtocol
import APNsSimulator
import ArgumentParser

/// The options of the answers to valid notifications, for every gateway with a script.
struct AnswerOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Answer for one token. May be given several times.", valueName: "token=answer"))
    var answer: [String] = []

    @Option(
        help: ArgumentHelp(
            "Answer to the n-th valid notification, from 1. May be given several times.",
            valueName: "n=answer"))
    var at: [String] = []

    @Option(
        help: ArgumentHelp(
            "Answer for a share of the tokens. May be given several times.",
            discussion: "The share is in percent, as in 1.5=ANSWER.",
            valueName: "percent=answer"))
    var share: [String] = []

    @Option(help: "Seed for the tokens of the shares.")
    var seed: UInt64 = 1

    /// The script of the options. Throws `SimulatorFailure` or `RunFailure`.
    func script<Action: GatewayAction>() throws -> GatewayScript<Action> {
        var script = GatewayScript<Action>()
        script.seed = seed
        for text in answer {
            let (token, action): (String, Action) = try halves(text, of: "--answer")
            script.tokens[try DeviceToken(spelling: token)] = action
        }
        for text in at {
            let (number, action): (String, Action) = try halves(text, of: "--at")
            guard let place = Int(number), place > 0 else {
                throw RunFailure("reading --at \(text): \(number) is no number from 1")
            }
            script.sequence[place] = action
        }
        for text in share {
            let (percent, action): (String, Action) = try halves(text, of: "--share")
            guard let value = Double(percent), (0...100).contains(value) else {
                throw RunFailure("reading --share \(text): \(percent) is no percentage")
            }
            script.shares.append(
                .init(millionths: Int((value * 10_000).rounded()), action: action))
        }
        return script
    }

    private func halves<Action: GatewayAction>(
        _ text: String, of option: String
    ) throws -> (String, Action) {
        guard let sign = text.firstIndex(of: "=") else {
            throw RunFailure("reading \(option) \(text): it has no =")
        }
        return (
            String(text[..<sign]), try Action(String(text[text.index(after: sign)...]))
        )
    }
}
