import Foundation
import TestSupport
import Testing
import YAML

/// The file docs/compose.yaml without Docker: its commands run in their order, with the settings, the
/// script and the simulator that the file has, on a database of the test server.
@Suite(
    "The trial with Docker Compose",
    .needsServer)
struct ComposeTests {
    private static let prefix = "#   docker compose -f docs/compose.yaml "

    @Test("its commands mark one device by a report, one by an answer, and send to the third")
    func story() throws {
        let text = try String(contentsOf: DocumentBlock.path("docs/compose.yaml"), encoding: .utf8)
        let file = try #require(try YAMLNode.document(text))
        let services = try #require(file["services"])
        let folder = try TemporaryFolder()
        let database = try TokenDatabase(.mariaDB)
        // The program makes its tables anew, as in a new database.
        try database.sql.run("DROP TABLE IF EXISTS active_users")

        let provider = try Self.provider(services, folder)
        defer { provider.tool.signal(SIGTERM) }
        try folder.write(
            "pushsweep.yaml", try Self.settings(file, folder, port: provider.port))
        let shell = try DocumentShell(database, folder)
        var results: [[String]] = []
        for line in text.split(separator: "\n") where line.hasPrefix(Self.prefix) {
            let words = DocumentBlock.words(String(line.dropFirst(Self.prefix.count)))
            switch words[0] {
            case "run":
                try #require(words.prefix(3) == ["run", "--rm", "pushsweep"])
                try shell.run(Array(words.dropFirst(3))).ends(0, for: "\(words)")
            case "exec":
                try #require(words.prefix(3) == ["exec", "database", "sh"])
                for statement in try Self.statements(file, script: words[3]) {
                    if statement.hasPrefix("SELECT") {
                        results = try database.texts(statement)
                    } else {
                        try database.sql.run(statement)
                    }
                }
            case "up":
                for name in words.drop(while: { $0 != "--wait" }).dropFirst() {
                    #expect(services[name] != nil, "\(name)")
                }
            default: #expect(words == ["down", "--volumes"])
            }
        }
        let states =
            "SELECT u.user_id, q.state FROM push_queue q JOIN active_users u "
            + "ON u.device_token = q.device_token ORDER BY 1"
        let found = try database.texts(states)
        #expect(found == [["ada", "sent"], ["cho", "gone"]], "\(found)")
        let marked = "SELECT user_id FROM active_users WHERE invalidated_at IS NOT NULL ORDER BY 1"
        #expect(try database.texts(marked) == [["ben"], ["cho"]])
        #expect(results.contains { $0[0...2] == ["cho", "gone", "Unregistered"] }, "\(results)")
    }

    @Test("the program's service has what its settings name: the state, the password, the network")
    func services() throws {
        let text = try String(contentsOf: DocumentBlock.path("docs/compose.yaml"), encoding: .utf8)
        let file = try #require(try YAMLNode.document(text))
        let services = try #require(file["services"])
        let (own, database) = (services["pushsweep"], services["database"])
        #expect(own?["network_mode"]?.text == "service:provider")
        let volumes = own?["volumes"]?.items?.map(\.text)
        #expect(volumes?.isEmpty == false)
        #expect(volumes == services["provider"]?["volumes"]?.items?.map(\.text))
        let password = own?["environment"]?["PUSHSWEEP_STORE_PASSWORD"]
        #expect(password?.text == database?["environment"]?["MARIADB_PASSWORD"]?.text)
        for service in services.pairs?.map(\.value) ?? [] {
            for config in service["configs"]?.items ?? [] {
                let name = try #require(config["source"]?.text)
                #expect(file["configs"]?[name] != nil, "\(name)")
            }
            guard let build = service["build"] else { continue }
            let docker = try #require(build["dockerfile"]?.text)
            let stages = try String(contentsOf: DocumentBlock.path(docker), encoding: .utf8)
            if let target = build["target"]?.text {
                #expect(stages.contains(" AS \(target)\n"))
            }
        }
    }

    /// The statements of a script that the database's service has.
    private static func statements(_ file: YAMLNode, script: String) throws -> [String] {
        let mounted = try #require(file["services"]?["database"]?["configs"]?.items)
        let name = try #require(
            mounted.first { $0["target"]?.text == script }?["source"]?.text)
        let text = try #require(file["configs"]?[name]?["content"]?.text)
        return try #require(text.components(separatedBy: "<<'SQL'\n").last)
            .replacing("SQL\n", with: "").components(separatedBy: ";\n").filter { $0 != "" }
    }

    /// Starts the simulator with the words of its service, on a free port and in a folder of the test.
    private static func provider(
        _ services: YAMLNode, _ folder: TemporaryFolder
    ) throws -> (tool: RunningTool, port: String) {
        let words = try #require(services["provider"]?["command"]?.items).map {
            try #require($0.text)
                .replacing("/var/lib/pushsweep", with: folder.path)
                .replacing("--port=4430", with: "--port=0")
        }
        let tool = try RunningTool("apns-simulator", words)
        let line = try #require(tool.firstLine())
        let greeting = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        let address = try #require(greeting?["listening"] as? String)
        return (tool, String(try #require(address.split(separator: ":").last)))
    }

    /// The file's settings with the folder and the port of the test. The database is named by variables.
    private static func settings(
        _ file: YAMLNode, _ folder: TemporaryFolder, port: String
    ) throws -> String {
        let content = try #require(file["configs"]?["settings"]?["content"]?.text)
        #expect(content.contains("@database:3306/push") && content.contains("port: 4430"))
        return content.replacing("/var/lib/pushsweep", with: folder.path)
            .replacing("4430", with: port).replacing(
                "tls: {mode: off}", with: "tls: {mode: verify}")
    }
}
