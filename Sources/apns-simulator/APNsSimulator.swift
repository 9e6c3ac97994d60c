import APNsProtocol
import APNsSimulator
import ArgumentParser
import Encodings
import FoundationEssentials
import Dispatch
import Glibc
import SecureTransport

/// The program `apns-simulator`.
@main
struct APNsSimulatorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns-simulator",
        abstract: "Test gateway for push senders: serves like APNs, or misbehaves.",
        discussion: """
            Runs on this machine with its own certificates. Its certificates and answers are not for \
            production.

            EXIT STATUS
              0   done, or stopped by SIGTERM or SIGINT
              1   the certificates, the lists or the port cannot be used
              64  usage
            """,
        subcommands: [
            FeedbackCommand.self, ProviderCommand.self, BinaryGatewayCommand.self,
            CertificatesCommand.self,
        ])
}

/// The address and the certificates of a gateway.
struct ListenerOptions: ParsableArguments {
    @Option(help: "Directory of the certificates; created when missing, see `certificates --help`.")
    var directory: String

    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 takes a free one.")
    var port: UInt16 = 0

    /// Starts a gateway, prints where it listens with more lines of its own, and serves until SIGTERM,
    /// SIGINT or the gateway trips the interrupt.
    func serve<Gateway: LocalGateway>(
        _ start: (SimulatorCertificates, Interrupt) throws -> (Gateway, more: [String: String])
    ) throws -> Gateway {
        let stop = try Interrupt()
        // Blocked in this thread and those that follow: the kernel drops a signal that is ignored and not
        // blocked before the source reads it, and one that comes before the source listens waits for it.
        var ends = sigset_t()
        sigemptyset(&ends)
        for number in [SIGTERM, SIGINT] { sigaddset(&ends, number) }
        pthread_sigmask(SIG_BLOCK, &ends, nil)
        let signals = [SIGTERM, SIGINT].map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { stop.trip() }
            source.resume()
            return source
        }
        defer { signals.forEach { $0.cancel() } }
        let certificates = try SimulatorCertificates(directory: directory)
        let (gateway, more) = try start(certificates, stop)
        let address = ["listening": gateway.address.description]
        try Output.line(certificates.paths.merging(address) { $1 }.merging(more) { $1 })
        _ = stop.wait(until: .never)
        gateway.stop()
        return gateway
    }
}

/// The text of a file in `Help`, whose paragraphs are broken into lines; `ends` are the words with which
/// a connection may end.
func discussion(_ file: [UInt8], ends: [String] = []) -> String {
    String(decoding: file, as: UTF8.self).split(separator: "\n\n").map {
        $0.split(separator: "\n").joined(separator: " ")
    }.joined(separator: "\n\n").replacing("<ends>", with: ends.joined(separator: ", "))
}

/// The help of an option with the name of its value.
func help(_ text: String, _ value: String) -> ArgumentHelp {
    ArgumentHelp(text, valueName: value)
}

/// Refuses options that are below their least value.
func refuse(_ options: [(name: String, value: Int?, least: Int)]) throws {
    for (name, value, least) in options {
        if let value, value < least {
            throw ValidationError("\(name) is a number from \(least)")
        }
    }
}

/// The text of a file that an option names.
func text(of path: String, _ what: String) throws -> String {
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
        throw Refusal("opening the \(what) \(path): no such readable text file")
    }
    return text
}

/// Writes lines of JSON to standard output, each with one write so that readers see complete lines.
enum Output {
    static func line(_ value: some Encodable) throws {
        var line = try JSONLine.bytes(value)
        line.append(UInt8(ascii: "\n"))
        guard writeWhole(Array(line), to: STDOUT_FILENO) else {
            throw Refusal(
                "writing to standard output: \(String(cString: strerror(errno)).lowercased())")
        }
    }
}

/// The options of the answers to valid notifications, for every gateway with a script.
struct AnswerOptions: ParsableArguments {
    @Option(help: help("Answer for one token. May be given several times.", "token=answer"))
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

    @Option(
        help: ArgumentHelp(
            "The tokens of this gateway's environment, one in hex a line: every other one is refused.",
            discussion: "By the provider with BadDeviceToken, by the binary gateway with status 8.",
            valueName: "file"), completion: .file())
    var known: String?

    /// The tokens of the file; nil where every token is of this environment. Throws `Refusal`.
    func knownTokens() throws -> Set<DeviceToken>? { try known.map(Self.tokens) }

    private static func tokens(_ path: String) throws -> Set<DeviceToken> {
        let text = try text(of: path, "tokens")
        var tokens: Set<DeviceToken> = []
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated() where !line.allSatisfy(\.isWhitespace)
        {
            do throws(Refusal) {
                tokens.insert(try DeviceToken(spelling: line))
            } catch {
                throw Refusal("reading the tokens \(path): line \(index + 1): \(error)")
            }
        }
        return tokens
    }

    /// The script of the options. Throws `Refusal`.
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
                throw Refusal("reading --at \(text): \(number) is no number from 1")
            }
            script.sequence[place] = action
        }
        for text in share {
            let (percent, action): (String, Action) = try halves(text, of: "--share")
            guard let value = Double(percent), (0...100).contains(value) else {
                throw Refusal("reading --share \(text): \(percent) is no percentage")
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
            throw Refusal("reading \(option) \(text): it has no =")
        }
        return (
            String(text[..<sign]), try Action(String(text[text.index(after: sign)...]))
        )
    }
}

/// `apns-simulator certificates`: writes certificates and starts no gateway.
struct CertificatesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "certificates",
        abstract: "Write the certificates of gateway and clients, valid and invalid ones.",
        discussion: """
            Existing files are used again if all are present and the valid certificates are valid \
            for another week; else all are made again. Keys, the PKCS#12 file and its passphrase \
            file have mode 0600.

            ca.pem, foreign-ca.pem: the trusted authority, and one that is not trusted.
            server, expired-server, not-yet-valid-server, foreign-server, wrong-host-server,
            client, several-topics-client, expired-client, foreign-client: each as .pem and .key.
            client.p12, client.passphrase: the client's certificate as PKCS#12.

            Prints one JSON object with the paths a client needs.
            """)

    @Option(help: "Directory of the certificates; created when missing.")
    var directory: String

    func run() throws {
        try Output.line(try SimulatorCertificates(directory: directory).paths)
    }
}

extension SimulatorCertificates {
    /// The paths a client needs, by their names in the output.
    var paths: [String: String] {
        [
            "ca": authority, "certificate": certificate(.client), "key": key(.client),
            "pkcs12": clientPKCS12, "passphrase-file": clientPassphraseFile,
        ]
    }
}
