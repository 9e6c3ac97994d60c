// swift-tools-version: 6.2

import PackageDescription

let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
]

let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let yams = Target.Dependency.product(name: "Yams", package: "Yams")
let argumentParser = Target.Dependency.product(
    name: "ArgumentParser", package: "swift-argument-parser")

let package = Package(
    name: "pushsweep",
    products: [
        .executable(name: "pushsweep", targets: ["pushsweep"]),
        .executable(name: "apns-simulator", targets: ["apns-simulator"]),
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
        .package(url: "https://github.com/jpsim/Yams", exact: "6.2.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
    ],
    targets: [
        .systemLibrary(
            name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(
            name: "CMariaDB", pkgConfig: "libmariadb", providers: [.apt(["libmariadb-dev"])]),

        .target(name: "APNsProtocol", swiftSettings: strict),
        .target(name: "TokenHygiene", dependencies: ["APNsProtocol"], swiftSettings: strict),
        .target(name: "SecureTransport", dependencies: ["COpenSSL"], swiftSettings: strict),
        .target(
            name: "APNsConnection", dependencies: ["APNsProtocol", "SecureTransport"],
            swiftSettings: strict),
        .target(
            name: "EvidenceJournal", dependencies: ["TokenHygiene", grdb], swiftSettings: strict),
        .target(
            name: "TokenStore", dependencies: ["TokenHygiene", "CMariaDB", grdb],
            swiftSettings: strict),
        .target(
            name: "Operations",
            dependencies: ["APNsConnection", "EvidenceJournal", "TokenStore", yams, logging],
            swiftSettings: strict),
        .target(
            name: "APNsSimulator", dependencies: ["APNsProtocol", "SecureTransport"],
            swiftSettings: strict),
        .executableTarget(
            name: "pushsweep", dependencies: ["Operations", "APNsSimulator", argumentParser],
            swiftSettings: strict),
        .executableTarget(
            name: "apns-simulator", dependencies: ["APNsSimulator", argumentParser],
            swiftSettings: strict),
        .executableTarget(
            name: "pushsweep-benchmarks",
            dependencies: ["Operations", "APNsSimulator", argumentParser],
            path: "Benchmarks", swiftSettings: strict),

        .target(
            name: "TestSupport", dependencies: ["Operations", "APNsSimulator"],
            path: "Tests/TestSupport", swiftSettings: strict),
        .testTarget(
            name: "APNsProtocolTests", dependencies: ["APNsProtocol", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "TokenHygieneTests", dependencies: ["TokenHygiene", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "SecureTransportTests", dependencies: ["SecureTransport", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "APNsConnectionTests",
            dependencies: ["APNsConnection", "APNsSimulator", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "APNsSimulatorTests",
            dependencies: ["APNsSimulator", "TestSupport", "apns-simulator"],
            swiftSettings: strict),
        .testTarget(
            name: "EvidenceJournalTests", dependencies: ["EvidenceJournal", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "TokenStoreTests", dependencies: ["TokenStore", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "OperationsTests", dependencies: ["Operations", "TestSupport"],
            swiftSettings: strict),
        .testTarget(
            name: "CommandTests",
            dependencies: ["Operations", "APNsSimulator", "TestSupport", "pushsweep"],
            swiftSettings: strict),
    ]
)
