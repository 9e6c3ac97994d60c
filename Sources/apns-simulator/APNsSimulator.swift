import ArgumentParser
import Encodings
import Foundation
import Glibc
import SecureTransport

/// The command: one file per listener.
@main
struct APNsSimulatorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "apns-simulator",
        abstract: "A gateway for push senders to test against: serves like APNs, or misbehaves.",
        discussion: """
            Runs on this machine with certificates of its own. Nothing it makes or serves is for \
            production.

            EXIT STATUS
              0   done, or stopped by SIGTERM or SIGINT
              1   the certificates, the lists or the port cannot be used
              64  usage
            """,
        subcommands: [FeedbackCommand.self, ProviderCommand.self, CertificatesCommand.self])
}

/// Where a gateway listens, and as whom.
struct ListenerOptions: ParsableArguments {
    @Option(help: "Where the certificates are; made when missing, see `certificates --help`.")
    var directory: String

    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 takes a free one.")
    var port: UInt16 = 0
}

/// Turns SIGTERM and SIGINT into a tripped interrupt.
enum StopSignals {
    /// From now on the signals trip `stop` instead of ending the process.
    ///
    /// A thread waits for them with sigwait(3), so no code runs inside a signal handler. Call
    /// before any other thread starts: threads inherit the mask that keeps the signals for it.
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

/// Lines of JSON on standard output, each written at once so that readers see whole lines.
enum Output {
    static func line(_ value: some Encodable) throws {
        var line = try JSONLine.bytes(value)
        line.append(UInt8(ascii: "\n"))
        try FileHandle.standardOutput.write(contentsOf: line)
    }
}
