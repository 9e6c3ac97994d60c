import ArgumentParser
import Encodings
import Foundation
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
}

/// Trips an interrupt on SIGTERM and SIGINT.
enum StopSignals {
    /// Makes the signals trip `stop` instead of ending the process.
    ///
    /// A thread waits for them with sigwait(3), so no code runs in a signal handler. Call it
    /// before any other thread starts, because threads inherit the mask that blocks the signals.
    static func trip(_ stop: Interrupt) throws(TransportFailure) {
        var blocked = signals
        pthread_sigmask(SIG_BLOCK, &blocked, nil)
        _ = try WorkerThread {
            var awaited = signals
            var received: Int32 = 0
            sigwait(&awaited, &received)
            stop.trip()
        }
    }

    private static var signals: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGTERM)
        sigaddset(&set, SIGINT)
        return set
    }
}

/// Writes lines of JSON to standard output, each with one write so that readers see complete lines.
enum Output {
    static func line(_ value: some Encodable) throws {
        var line = try JSONLine.bytes(value)
        line.append(UInt8(ascii: "\n"))
        try FileHandle.standardOutput.write(contentsOf: line)
    }
}
