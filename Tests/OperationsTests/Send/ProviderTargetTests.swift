import Settings
import TestSupport
import Testing

@testable import Operations

@Suite("The gateway of an app that sends")
struct ProviderTargetTests {
    @Test("of several apps the one is named whose key cannot be read")
    func naming() throws {
        let folder = try TemporaryFolder()
        let apps = ["chat", "mail"].map {
            """
              - {name: \($0), topic: com.example.\($0), environment: production, provider: {host: localhost},
                 token-key: {file: \($0).p8, key-id: ABCDEFGHIJ, team-id: ABCDEFGHIJ}}
            """
        }
        let file = try folder.write("p.yaml", "apps:\n" + apps.joined(separator: "\n") + "\n")
        let settings = try Settings.load(configFile: file, environment: [:])
        for app in settings.apps {
            let target = try #require(ProviderTarget(app, settings.send, .silent()))
            let failure = #expect(throws: RunFailure.self) { try target.gateway.get() }
            #expect(failure?.description.hasPrefix("\(app.name)/production: ") == true)
            #expect(failure?.description.contains("\(app.name).p8") == true)
        }
    }
}
