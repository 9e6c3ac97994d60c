import Encodings
import Foundation

// The report in the Static Analysis Results Interchange Format, version 2.1.0 (OASIS Standard), which code
// hosts show beside a change. A finding is about settings or a database and not about a line of code, so
// its place is the settings file, and its object is a logical location.

/// The report as a SARIF log.
package struct GateSARIF: Encodable {
    private let version = "2.1.0"
    private let schema = "https://json.schemastore.org/sarif-2.1.0.json"
    private let runs: [Run]

    private enum CodingKeys: String, CodingKey {
        case version, runs
        case schema = "$schema"
    }

    /// Puts a report into the format. `program` is the version of this program, and `file` the settings
    /// file, if there is one.
    package init(_ report: GateReport, program: String, file: String?) {
        let rules = GateRule.allCases
        let place = file.map { path in
            Location.Physical(
                artifactLocation: .init(uri: URL(fileURLWithPath: path).absoluteString))
        }
        runs = [
            Run(
                tool: .init(
                    driver: .init(
                        name: "pushsweep preflight", version: program,
                        rules: rules.map {
                            .init(id: $0.rawValue, shortDescription: .init(text: $0.summary))
                        })),
                results: report.findings.map { finding in
                    Result(
                        ruleId: finding.rule.rawValue,
                        ruleIndex: rules.firstIndex(of: finding.rule) ?? 0,
                        level: finding.severity.level,
                        message: .init(text: "\(finding.message); \(finding.cure)".printable),
                        locations: [
                            .init(
                                physicalLocation: place,
                                logicalLocations: [
                                    .init(fullyQualifiedName: finding.object.printable)
                                ])
                        ],
                        suppressions: finding.ignored.map {
                            [.init(justification: "until \($0.until): \($0.reason)".printable)]
                        } ?? [],
                        properties: .init(severity: finding.severity.rawValue))
                },
                invocations: [
                    .init(
                        executionSuccessful: true, exitCode: report.exit,
                        exitCodeDescription: report.headline.printable)
                ],
                properties: .init(
                    app: report.app, environment: report.environment, gate: report.gate))
        ]
    }

    private struct Text: Encodable {
        let text: String
    }

    private struct Run: Encodable {
        let tool: Tool
        let results: [Result]
        let invocations: [Invocation]
        let properties: Properties

        struct Properties: Encodable {
            let app, environment, gate: String
        }

        struct Tool: Encodable {
            let driver: Driver
        }

        struct Driver: Encodable {
            let name, version: String
            let rules: [Rule]
        }

        struct Rule: Encodable {
            let id: String
            let shortDescription: Text
        }

        struct Invocation: Encodable {
            let executionSuccessful: Bool
            let exitCode: Int32
            let exitCodeDescription: String
        }
    }

    private struct Result: Encodable {
        let ruleId: String
        let ruleIndex: Int
        let level: String
        let message: Text
        let locations: [Location]
        let suppressions: [Suppression]
        let properties: Properties

        struct Properties: Encodable {
            let severity: String
        }

        struct Suppression: Encodable {
            private let kind = "external"
            let justification: String

            init(justification: String) { self.justification = justification }

            private enum CodingKeys: String, CodingKey {
                case kind, justification
            }
        }
    }

    private struct Location: Encodable {
        let physicalLocation: Physical?
        let logicalLocations: [Logical]

        struct Physical: Encodable {
            let artifactLocation: Artifact
        }

        struct Artifact: Encodable {
            let uri: String
        }

        struct Logical: Encodable {
            let fullyQualifiedName: String
        }
    }
}

extension GateSeverity {
    /// The level of SARIF.
    fileprivate var level: String {
        switch self {
        case .note, .low: "note"
        case .medium: "warning"
        case .high: "error"
        }
    }
}
