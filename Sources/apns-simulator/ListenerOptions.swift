import ArgumentParser

/// Where a gateway listens, and as whom.
struct ListenerOptions: ParsableArguments {
    @Option(help: "Where the certificates are; made when missing, see `certificates --help`.")
    var directory: String

    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 takes a free one.")
    var port: UInt16 = 0
}
