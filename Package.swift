// swift-tools-version: 6.2
import PackageDescription

var settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]
// Set by the steps of `ci`. A newer compiler may have new warnings, which should not stop others.
if Context.environment["WARNINGS_AS_ERRORS"] != nil { settings.append(.treatAllWarnings(as: .error)) }

let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let configuration = Target.Dependency.product(
    name: "Configuration",
    package: "swift-configuration",
    condition: .when(traits: ["Configuration"])
)
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto", condition: .when(traits: ["Sealing"]))
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let metrics = Target.Dependency.product(name: "Metrics", package: "swift-metrics")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let serviceLifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let tracing = Target.Dependency.product(name: "Tracing", package: "swift-distributed-tracing")

let package = Package(
    name: "swift-apns-pool",
    // Linux is what the tests run on. macOS 15 is written for (Synchronization's Mutex) and untested. The others are for
    // APNSSealing, which goes into apps and their extensions; it is untested there too.
    platforms: [.macOS(.v15), .iOS(.v16), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [
        .library(name: "APNSPool", targets: ["APNSPool"]),
        .library(name: "APNSModel", targets: ["APNSModel"]),
        .library(name: "APNSSealing", targets: ["APNSSealing"]),
        .library(name: "APNSSimulator", targets: ["APNSSimulator"]),
        .library(name: "APNSTesting", targets: ["APNSTesting"]),
        // Experimental until 1.0: its names may still change.
        .library(name: "SupervisedPool", targets: ["SupervisedPool"]),
        // For the relay alone, which uses the server's side of TLS. Nothing in it is public otherwise.
        .library(name: "_APNSTransport", targets: ["APNSTransport"]),
        .executable(name: "apns", targets: ["APNSCommand"]),
    ],
    traits: [
        .trait(
            name: "Configuration",
            description: "Adds APNSClientConfiguration(_: ConfigReader), and with it swift-configuration."
        ),
        .trait(
            name: "YAML",
            description: "Configuration with YAML files, which adds Yams.",
            enabledTraits: ["Configuration"]
        ),
        .trait(
            name: "Sealing",
            description: "APNSSealing where there is no CryptoKit, which adds swift-crypto."
        ),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing.git", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-collections.git", from: "1.6.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.0"),
        .package(
            url: "https://github.com/apple/swift-configuration.git",
            from: "1.4.0",
            traits: ["JSON", .trait(name: "YAML", condition: .when(traits: ["YAML"]))]
        ),
        // For the trait Sealing alone. Version 5 is untested.
        .package(url: "https://github.com/apple/swift-crypto.git", "4.5.0"..<"6.0.0"),
    ],
    targets: [
        .systemLibrary(
            name: "CAPNSNghttp2",
            pkgConfig: "libnghttp2",
            providers: [.apt(["libnghttp2-dev"]), .brew(["libnghttp2"])]
        ),
        .systemLibrary(
            name: "CAPNSOpenSSL",
            pkgConfig: "openssl",
            providers: [.apt(["libssl-dev"]), .brew(["openssl@3"])]
        ),
        // Internal: what at least two targets need. For apps too, since APNSSealing is.
        .target(name: "APNSBasics"),
        .target(
            name: "SupervisedPool",
            dependencies: [
                "APNSBasics",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
            ]
        ),
        .target(
            name: "APNSTransport",
            dependencies: ["APNSBasics", "CAPNSNghttp2", "CAPNSOpenSSL", nioCore, nioPosix]
        ),
        .target(name: "APNSModel", dependencies: ["APNSBasics"]),
        .target(
            name: "APNSSealing",
            dependencies: [
                "APNSBasics",
                // Where there is CryptoKit, an app's extension carries nothing more.
                .product(
                    name: "Crypto",
                    package: "swift-crypto",
                    condition: .when(platforms: [.linux, .android, .windows], traits: ["Sealing"])
                ),
            ]
        ),
        .target(
            name: "APNSPool",
            dependencies: [
                "APNSModel",
                "APNSBasics",
                "APNSTransport",
                "SupervisedPool",
                configuration,
                logging,
                metrics,
                nioCore,
                nioPosix,
                serviceLifecycle,
                tracing,
            ]
        ),
        .target(name: "APNSDevices", dependencies: ["APNSModel"]),
        .target(
            name: "APNSSimulator",
            dependencies: ["APNSDevices", "APNSModel", "APNSBasics", "APNSTransport", nioCore, nioPosix]
        ),
        .target(name: "APNSTesting", dependencies: ["APNSModel", "APNSPool", "APNSSimulator", logging]),
        // The simulator's page and OpenAPI document, as bytes. The relay embeds page/kit, too.
        .target(name: "CAPNSControlFiles", exclude: ["openapi.json", "page"]),
        .target(
            name: "APNSControl",
            dependencies: [
                "APNSBasics",
                "APNSModel",
                "APNSSimulator",
                "CAPNSControlFiles",
                nioCore,
                nioHTTP1,
                nioPosix,
            ]
        ),
        .executableTarget(
            name: "APNSCommand",
            dependencies: [
                "APNSBasics",
                "APNSControl",
                "APNSModel",
                "APNSPool",
                "APNSSimulator",
                "APNSTransport",
                "SupervisedPool",
                argumentParser,
                logging,
                nioCore,
            ]
        ),
        .target(
            name: "TestSupport",
            dependencies: ["APNSBasics", "APNSTransport", "SupervisedPool", nioCore, nioPosix],
            path: "Tests/TestSupport"
        ),
        .testTarget(name: "APNSBasicsTests", dependencies: ["APNSBasics", "TestSupport"]),
        .testTarget(name: "SupervisedPoolTests", dependencies: ["SupervisedPool", "TestSupport"]),
        .testTarget(
            name: "APNSTransportTests",
            dependencies: [
                "CAPNSNghttp2",
                "APNSTransport",
                "TestSupport",
                nioCore,
                nioPosix,
                .product(name: "NIOEmbedded", package: "swift-nio"),
                crypto,
            ]
        ),
        .testTarget(name: "APNSModelTests", dependencies: ["APNSModel", "TestSupport"]),
        .testTarget(
            name: "APNSSealingTests",
            dependencies: [
                "APNSBasics",
                "APNSModel",
                "APNSPool",
                "APNSPoolTestSupport",
                "APNSSealing",
                "APNSSimulator",
                "TestSupport",
                crypto,
            ]
        ),
        .testTarget(name: "APNSDevicesTests", dependencies: ["APNSDevices", "APNSModel", "TestSupport"]),
        .testTarget(
            name: "APNSSimulatorTests",
            dependencies: ["APNSSimulator", "APNSBasics", "APNSTransport", "TestSupport"]
        ),
        // What the tests of the client share: a test target, so that a build without tests leaves it out.
        .testTarget(
            name: "APNSPoolTestSupport",
            dependencies: [
                "APNSPool",
                "APNSSimulator",
                "APNSTesting",
                "APNSTransport",
                "SupervisedPool",
                "TestSupport",
                nioCore,
                nioPosix,
                logging,
            ]
        ),
        // The client's parts, most of them without a server. Beside APNSPoolTests, so that two cores compile them.
        .testTarget(
            name: "APNSPoolUnitTests",
            dependencies: [
                "APNSPool",
                "APNSPoolTestSupport",
                "APNSSimulator",
                "APNSTesting",
                "APNSTransport",
                "SupervisedPool",
                "TestSupport",
                configuration,
                nioCore,
                nioPosix,
                crypto,
                logging,
            ]
        ),
        // The client with servers and faults.
        .testTarget(
            name: "APNSPoolTests",
            dependencies: [
                "APNSPool",
                "APNSPoolTestSupport",
                "APNSSimulator",
                "APNSTesting",
                "APNSTransport",
                "SupervisedPool",
                "TestSupport",
                nioCore,
                nioPosix,
                logging,
                metrics,
                serviceLifecycle,
                tracing,
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
            ]
        ),
        // The code of the pages and of doc comments, and tests that run it.
        .testTarget(
            name: "ExampleTests",
            dependencies: [
                "APNSPool",
                "APNSPoolTestSupport",
                "APNSSimulator",
                "APNSTesting",
                "SupervisedPool",
                "TestSupport",
                configuration,
                logging,
                serviceLifecycle,
            ]
        ),
        .testTarget(
            name: "APNSControlTests",
            dependencies: [
                "APNSControl", "APNSModel", "APNSPool", "APNSPoolTestSupport", "APNSSimulator", "TestSupport", nioHTTP1,
            ]
        ),
        .testTarget(
            name: "APNSCommandTests",
            dependencies: [
                "APNSCommand",
                "APNSModel",
                "APNSPool",
                "APNSSimulator",
                "APNSTransport",
                "TestSupport",
                argumentParser,
            ]
        ),
    ]
)

for target in package.targets where target.type != .system { target.swiftSettings = settings }
