import ArgumentParser

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
