import APNsProtocol
import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("The binary interface with clients of other projects")
struct BinaryForeignTests {
    private static let hasAPNs3 = PythonClients.have("apns3")

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// A gateway where the tokens 3 and 5 are wrong and 4 is dead, and its feedback service.
    private func gateways() throws -> (BinaryGateway, FeedbackGateway) {
        let dead = DeadTokens()
        let gateway = try BinaryGateway.start(dead: dead) {
            $0.script.tokens[Numbered.token(3)] = .reject(.invalidToken)
            $0.script.tokens[Numbered.token(4)] = .dead()
            $0.script.tokens[Numbered.token(5)] = .reject(.invalidToken)
        }
        return (
            gateway, try FeedbackGateway(certificates: try shared.get().certificates, dead: dead)
        )
    }

    private func run(
        _ program: String, _ mode: String, _ gateway: BinaryGateway, _ feedback: FeedbackGateway
    ) throws -> ToolResult {
        let certificates = try shared.get().certificates
        return try PythonClients.start(
            [
                try folder.write("\(mode).py", program), mode, certificates.certificate(.client),
                certificates.key(.client), "\(gateway.port)", "\(feedback.port)",
            ] + (1...5).map { Numbered.token($0).hex }
        ).wait()
    }

    @Test(
        "apns3 sends with each command, gets the error, and reads the dead token",
        .enabled(if: hasAPNs3, Comment(rawValue: PythonClients.absence(of: "apns3"))),
        arguments: ["simple", "enhanced", "framed"])
    func apns3(mode: String) throws {
        let (gateway, feedback) = try gateways()
        let result = try run(Self.apns3Program, mode, gateway, feedback)
        #expect(result.exit == 0, "\(result.error)")
        let errors = result.json["errors"] as? [[Int]] ?? []
        #expect(errors == (mode == "simple" ? [] : [[8, 3], [8, 5]]))
        #expect(gateway.log.accepted.map(\.token) == [1, 2, 4].map(Numbered.token))
        let command: BinaryCommand =
            mode == "simple" ? .simple : mode == "enhanced" ? .enhanced : .framed
        #expect(gateway.log.records.allSatisfy { $0.frame.command == command })
        #expect(gateway.log.accepted.allSatisfy { $0.payload == BinaryVector.payload })
        #expect(
            (result.json["feedback"] as? [[Any]])?.map { "\($0)" } == [
                "\([Numbered.token(4).hex, Int(FeedbackVector.start)] as [Any])"
            ])
    }

    /// The library's TLS call is gone from Python 3.12, and it does not find the notifications to
    /// repeat: both stand here. It sends from the first token on, then what stood behind each error.
    private static let apns3Program = """
        import calendar, json, os, select, ssl, struct, sys, threading
        def wrap_socket(sock, keyfile, certfile, do_handshake_on_connect=True):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(certfile, keyfile)
            return context.wrap_socket(sock, do_handshake_on_connect=do_handshake_on_connect)
        ssl.wrap_socket = wrap_socket
        import apns3
        mode, cert, key, push, feed = sys.argv[1:6]
        tokens, payload, errors, next_one = sys.argv[6:], apns3.Payload(alert='hi'), [], 1
        while next_one <= len(tokens):
            apns = apns3.APNs(cert_file=cert, key_file=key, enhanced=mode != 'simple')
            gateway = apns.gateway_server
            gateway.server, gateway.port = '127.0.0.1', int(push)
            rest = list(enumerate(tokens, 1))[next_one - 1:]
            if mode == 'simple':
                for number, token in rest: gateway.send_notification(token, payload)
                # No packet: this sender cannot know which one failed. The test knows.
                assert gateway.read(1) == b''
                next_one = 4 if next_one == 1 else 6
                continue
            if mode == 'enhanced':
                told, answers = threading.Event(), []
                def listen(answer):
                    answers.append((answer['status'], answer['identifier']))
                    told.set()
                gateway.register_response_listener(listen)
                for number, token in rest: gateway.send_notification(token, payload, number, 1700086400)
                assert told.wait(20)
                status, number = answers[0]
            else:
                frame = apns3.Frame()
                for number, token in rest: frame.add_item(token, payload, number, 1700086400, 10)
                gateway.send_notification_multiple(frame)
                assert select.select([gateway._ssl], [], [], 20)[0]
                command, status, number = struct.unpack('!BBI', gateway.read(6))
            errors.append([status, number])
            next_one = number + 1
        apns = apns3.APNs(cert_file=cert, key_file=key)
        feedback = apns.feedback_server
        feedback.server, feedback.port = '127.0.0.1', int(feed)
        dead = [[t.decode(), calendar.timegm(time.timetuple())] for t, time in feedback.items()]
        print(json.dumps({'errors': errors, 'feedback': dead}), flush=True)
        os._exit(0)  # the library's threads wait for more
        """
}
