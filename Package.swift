// swift-tools-version: 6.2

import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    // A build for debugging knows its lines, for what a crash prints; an optimized one is stripped when it is
    // installed. The frontend is told, since SwiftPM puts a -g of its own behind these words.
    .unsafeFlags(["-Xfrontend", "-gline-tables-only"], .when(configuration: .debug)),
    .unsafeFlags(["-Xfrontend", "-gnone"], .when(configuration: .release)),
]

let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let argumentParser = Target.Dependency.product(
    name: "ArgumentParser", package: "swift-argument-parser")

// One folder, two products: the tests run the fuzz targets over the kept corpus, and scripts/fuzz sets
// PUSHSWEEP_FUZZ to build the same targets with libFuzzer around them.
let fuzzDependencies: [Target.Dependency] = [
    "APNsProtocol", "Encodings", "EvidenceJournal", "Operations", "Settings", "TestSupport",
    "TokenHygiene",
    "Database", "PushQueue", "TokenTable",
]
let fuzzing: Target =
    Context.environment["PUSHSWEEP_FUZZ"] == nil
    ? .testTarget(
        name: "FuzzTests", dependencies: fuzzDependencies, exclude: ["Driver"],
        swiftSettings: strict)
    : .executableTarget(
        name: "pushsweep-fuzz", dependencies: fuzzDependencies, path: "Tests/FuzzTests",
        exclude: ["CorpusTests.swift", "Corpus.swift", "Mutation.swift"], swiftSettings: strict)

// The static standard library exports every symbol of a program, so that the linker may drop none: a
// tenth of the memory of a start. Nothing loads code into these programs.
let lean: [LinkerSetting] = [
    .unsafeFlags(["-Xlinker", "--no-export-dynamic"], .when(configuration: .release))
]

// scripts/package and scripts/install name the commit. SwiftPM's own Context.gitInformation comes from its
// cache of manifests, and then it is an earlier commit.
let commit = Context.environment["PUSHSWEEP_COMMIT"] ?? ""

let package = Package(
    name: "pushsweep",
    products: [
        .executable(name: "pushsweep", targets: ["pushsweep"]),
        .executable(name: "apns-simulator", targets: ["apns-simulator"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
    ],
    targets: [
        .systemLibrary(
            name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(
            name: "CMariaDB", pkgConfig: "libmariadb", providers: [.apt(["libmariadb-dev"])]),
        .systemLibrary(
            name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(
            name: "CYAML", pkgConfig: "yaml-0.1", providers: [.apt(["libyaml-dev"])]),
        .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["libmariadb-dev"])]),

        .target(
            name: "CCommit",
            cSettings: [
                .define("PUSHSWEEP_COMMIT", to: "\"\(commit.isEmpty ? "unknown" : commit)\"")
            ]),

        .target(name: "Encodings", swiftSettings: strict),
        .target(name: "YAML", dependencies: ["CYAML"], swiftSettings: strict),
        .target(name: "APNsProtocol", dependencies: ["Encodings"], swiftSettings: strict),
        .target(name: "Findings", swiftSettings: strict),
        .target(name: "TokenHygiene", dependencies: ["APNsProtocol"], swiftSettings: strict),
        .target(
            name: "SecureTransport", dependencies: ["CNGHTTP2", "COpenSSL", "Encodings"],
            swiftSettings: strict),
        .target(
            name: "APNsConnection", dependencies: ["APNsProtocol", "Encodings", "SecureTransport"],
            swiftSettings: strict),
        .target(
            name: "EvidenceJournal",
            dependencies: ["APNsProtocol", "Database", "Encodings", "TokenHygiene"],
            swiftSettings: strict),
        .target(
            name: "EvidenceFiles",
            dependencies: ["APNsProtocol", "CZlib", "Database", "Encodings", "TokenHygiene"],
            swiftSettings: strict),
        .target(
            name: "Database",
            dependencies: ["Findings", "APNsProtocol", "CMariaDB", "CSQLite", "Encodings"],
            swiftSettings: strict),
        .target(
            name: "TokenTable",
            dependencies: ["Findings", "APNsProtocol", "Database", "Encodings", "TokenHygiene"],
            swiftSettings: strict),
        .target(
            name: "SchemaLook",
            dependencies: [
                "Findings", "APNsProtocol", "Database", "Encodings", "TokenHygiene", "TokenTable",
            ],
            swiftSettings: strict),
        .target(
            name: "PushQueue",
            dependencies: [
                "Findings", "APNsProtocol", "Database", "Encodings", "TokenHygiene", "TokenTable",
            ],
            swiftSettings: strict),
        .target(
            name: "Settings",
            dependencies: [
                "APNsProtocol", "Database", "Encodings", "SecureTransport", "TokenHygiene", "YAML",
            ],
            resources: [.embedInCode("Examples"), .embedInCode("Pages")], swiftSettings: strict),
        .target(
            name: "Operations",
            dependencies: [
                "Findings",
                "APNsConnection", "APNsProtocol", "Encodings", "EvidenceFiles", "EvidenceJournal",
                "SecureTransport", "Settings", "TokenHygiene", "Database", "PushQueue",
                "TokenTable",
                logging,
            ],
            swiftSettings: strict),
        .target(
            name: "Looks",
            dependencies: [
                "Findings",
                "APNsConnection", "APNsProtocol", "Encodings", "EvidenceJournal", "Operations",
                "SecureTransport", "SchemaLook", "Settings", "TokenHygiene", "Database",
                "PushQueue", "TokenTable", logging,
            ],
            resources: [.embedInCode("Rules/Texts")], swiftSettings: strict),
        .target(
            name: "AuditFormats",
            dependencies: [
                "Findings", "Database", "Encodings", "Looks", "Operations", "SecureTransport",
            ],
            resources: [.embedInCode("Page/Style")], swiftSettings: strict),
        .target(
            name: "APNsSimulator",
            dependencies: [
                "APNsProtocol", "CNGHTTP2", "COpenSSL", "Encodings", "SecureTransport",
            ],
            swiftSettings: strict),
        .target(
            name: "Commands",
            dependencies: [
                "Findings",
                "APNsProtocol", "CCommit", "Encodings", "APNsSimulator", "EvidenceFiles",
                "EvidenceJournal", "Looks", "Operations", "SchemaLook",
                "SecureTransport", "Settings", "TokenHygiene", "Database", "TokenTable",
                "AuditFormats", "YAML", argumentParser, logging,
            ],
            resources: [.embedInCode("Help")], swiftSettings: strict),
        .executableTarget(
            name: "pushsweep", dependencies: ["Commands"], swiftSettings: strict,
            linkerSettings: lean),
        .executableTarget(
            name: "apns-simulator",
            dependencies: [
                "APNsProtocol", "APNsSimulator", "Encodings", "SecureTransport", argumentParser,
            ],
            resources: [.embedInCode("Help")], swiftSettings: strict, linkerSettings: lean),
        .executableTarget(
            name: "pushsweep-benchmarks",
            dependencies: [
                "APNsConnection", "APNsProtocol", "Encodings", "APNsSimulator", "EvidenceJournal",
                "Looks", "Operations", "SecureTransport", "Settings", "TokenHygiene", "Database",
                "PushQueue", "TokenTable", argumentParser,
            ],
            path: "Benchmarks", exclude: ["Peers", "kept.json", "paths"], swiftSettings: strict),

        .target(
            name: "TestSupport",
            dependencies: [
                "Findings",
                "APNsProtocol", "APNsSimulator", "Encodings", "SecureTransport", "TokenHygiene",
                "Database", "EvidenceJournal", "PushQueue", "TokenTable",
            ],
            path: "Tests/TestSupport", exclude: ["Preloaded"], swiftSettings: strict),
        .testTarget(
            name: "EncodingsTests", dependencies: ["Encodings", "TestSupport", "YAML"],
            swiftSettings: strict),
        .testTarget(
            name: "APNsProtocolTests", dependencies: ["APNsProtocol", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "TokenHygieneTests",
            dependencies: ["APNsProtocol", "TokenHygiene", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "SecureTransportTests",
            dependencies: ["APNsSimulator", "SecureTransport", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "APNsConnectionTests",
            dependencies: [
                "APNsConnection", "APNsProtocol", "APNsSimulator", "SecureTransport",
                "TestSupport",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "APNsSimulatorTests",
            dependencies: [
                "APNsProtocol", "APNsSimulator", "Encodings", "SecureTransport", "TestSupport",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "EvidenceJournalTests",
            dependencies: [
                "APNsProtocol", "Database", "EvidenceJournal", "TestSupport", "TokenHygiene",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "EvidenceFilesTests",
            dependencies: [
                "APNsProtocol", "Encodings", "EvidenceFiles", "TokenHygiene", "TestSupport",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "DatabaseTests",
            dependencies: [
                "Findings",
                "APNsProtocol", "APNsSimulator", "Encodings", "TokenHygiene", "Database",
                "PushQueue",
                "TokenTable", "TestSupport",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "TokenTableTests",
            dependencies: [
                "Findings",
                "APNsProtocol", "APNsSimulator", "Encodings", "TokenHygiene", "Database",
                "PushQueue",
                "TokenTable", "TestSupport",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "SchemaLookTests",
            dependencies: [
                "Findings",
                "APNsProtocol", "Encodings", "TokenHygiene", "Database", "SchemaLook",
                "TokenTable", "TestSupport",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "PushQueueTests",
            dependencies: [
                "Findings",
                "APNsProtocol", "APNsSimulator", "TokenHygiene", "Database", "PushQueue",
                "TokenTable", "TestSupport",
            ],
            swiftSettings: strict),
        .testTarget(
            name: "SettingsTests", dependencies: ["Database", "Settings", "TestSupport", "YAML"],
            swiftSettings: strict),
        .testTarget(
            name: "OperationsTests",
            dependencies: [
                "Findings",
                "APNsConnection", "APNsProtocol", "Encodings", "APNsSimulator", "EvidenceJournal",
                "Looks", "Operations",
                "SecureTransport", "Settings", "TokenHygiene", "Database", "PushQueue",
                "TokenTable", "TestSupport", logging,
            ],
            swiftSettings: strict),
        .testTarget(
            name: "AuditFormatsTests",
            dependencies: [
                "Findings",
                "AuditFormats", "Database", "Encodings", "Looks", "Operations", "SecureTransport",
                "TestSupport",
            ],
            exclude: ["Copies"], swiftSettings: strict),
        .testTarget(
            name: "CommandsTests",
            dependencies: ["APNsProtocol", "Commands", "Encodings", "Operations", "TestSupport"],
            exclude: ["Copies"], swiftSettings: strict),
        .testTarget(
            name: "CommandTests",
            dependencies: [
                "APNsProtocol", "APNsSimulator", "EvidenceJournal", "Looks", "Operations",
                "SecureTransport", "Settings", "TestSupport", "TokenHygiene", "Database",
                "PushQueue", "TokenTable", "YAML",
            ],
            // Compiled by the test that preloads it, linked into nothing.
            exclude: ["Golden/Copies"], swiftSettings: strict),
        fuzzing,
    ]
)
