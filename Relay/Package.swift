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

let apnsModel = Target.Dependency.product(name: "APNSModel", package: "swift-apns-pool")
let apnsPool = Target.Dependency.product(name: "APNSPool", package: "swift-apns-pool")
let apnsSimulator = Target.Dependency.product(name: "APNSSimulator", package: "swift-apns-pool")
let argumentParser = Target.Dependency.product(name: "ArgumentParser", package: "swift-argument-parser")
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto")
let grdb = Target.Dependency.product(name: "GRDB", package: "GRDB.swift")
let httpTypes = Target.Dependency.product(name: "HTTPTypes", package: "swift-http-types")
let hummingbird = Target.Dependency.product(name: "Hummingbird", package: "hummingbird")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let metrics = Target.Dependency.product(name: "Metrics", package: "swift-metrics")
let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let serviceLifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let supervisedPool = Target.Dependency.product(name: "SupervisedPool", package: "swift-apns-pool")
let swiftASN1 = Target.Dependency.product(name: "SwiftASN1", package: "swift-asn1")
let x509 = Target.Dependency.product(name: "X509", package: "swift-certificates")

// A separate package, so that users of the library do not resolve the relay's dependencies.
let package = Package(
    name: "Relay",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "apns-relay", targets: ["APNSRelayCommand"]),
        // For gateways of your own: requests for Web Push, their senders, notifications that carry them, and evidence that
        // a request comes from an unmodified copy of an app (App Attest).
        .library(name: "WebPushGateway", targets: ["WebPushGateway"]),
    ],
    dependencies: [
        // By name and path: a bare path takes the folder's name, which differs from clone to clone.
        .package(name: "swift-apns-pool", path: ".."),
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-asn1.git", from: "1.7.0"),
        .package(url: "https://github.com/apple/swift-certificates.git", from: "1.21.0"),
        .package(url: "https://github.com/apple/swift-collections.git", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto.git", "4.5.0"..<"6.0.0"),
        .package(url: "https://github.com/apple/swift-http-types.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-nio-extras.git", from: "1.35.0"),
        .package(url: "https://github.com/groue/GRDB.swift.git", from: "7.10.0"),
        // Without its traits, of which one adds swift-configuration.
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "2.28.0", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    ],
    targets: [
        // The protocol of a queue and its values. Knows no database and no network.
        .target(
            name: "PushQueue",
            dependencies: [apnsModel]
        ),
        .target(
            name: "SQLitePushQueue",
            dependencies: [
                "PushQueue",
                apnsModel,
                grdb,
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                logging,
            ]
        ),
        .systemLibrary(name: "CLibpq", pkgConfig: "libpq", providers: [.apt(["libpq-dev"]), .brew(["libpq"])]),
        .systemLibrary(
            name: "CLibcurl",
            pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"]), .brew(["curl"])]
        ),
        // The schema of the queue in PostgreSQL, as bytes.
        .target(name: "CPostgresSchema", exclude: ["schema"]),
        .target(
            name: "PostgresPushQueue",
            dependencies: [
                "CLibpq",
                "CPostgresSchema",
                "PushQueue",
                apnsModel,
                .product(name: "DequeModule", package: "swift-collections"),
                logging,
                supervisedPool,
            ]
        ),
        // Apple's root certificate for App Attest, and a part of the OpenAPI document, as bytes.
        .target(name: "CWebPushGatewayFiles", exclude: ["apple-app-attestation-root-ca.pem", "openapi.json"]),
        // The gateway for Web Push: on any queue, without a server.
        .target(
            name: "WebPushGateway",
            dependencies: [
                "CWebPushGatewayFiles",
                "PushQueue",
                apnsModel,
                crypto,
                httpTypes,
                logging,
                swiftASN1,
                x509,
            ]
        ),
        // The page and the OpenAPI document, as bytes. `page/kit` is a link to the kit of the simulator's page.
        .target(name: "CAPNSRelayFiles", exclude: ["openapi.json", "page"]),
        .target(
            name: "APNSRelay",
            dependencies: [
                "CAPNSRelayFiles",
                "CLibcurl",
                "PostgresPushQueue",
                "PushQueue",
                "SQLitePushQueue",
                "WebPushGateway",
                apnsPool,
                crypto,
                .product(name: "_APNSTransport", package: "swift-apns-pool"),
                httpTypes,
                hummingbird,
                logging,
                metrics,
                nioCore,
                nioHTTP1,
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                nioPosix,
                serviceLifecycle,
                supervisedPool,
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]
        ),
        .executableTarget(
            name: "APNSRelayCommand",
            dependencies: [
                "APNSRelay",
                "PushQueue",
                "SQLitePushQueue",
                argumentParser,
                logging,
            ]
        ),
        // For tests: the tests that both engines must pass, and what the tests of all targets share.
        .target(
            name: "PushQueueConformance",
            dependencies: ["PushQueue", apnsModel],
            path: "Tests/PushQueueConformance"
        ),
        // For tests: devices with keys of App Attest, and an authority that attests them.
        .target(
            name: "AppAttestTestDevice",
            dependencies: [
                crypto,
                swiftASN1,
                x509,
            ],
            path: "Tests/AppAttestTestDevice"
        ),
        .testTarget(
            name: "WebPushGatewayTests",
            dependencies: [
                "AppAttestTestDevice",
                "WebPushGateway",
                apnsModel,
                crypto,
                httpTypes,
            ],
            exclude: ["validation-guide.txt"]
        ),
        .testTarget(
            name: "SQLitePushQueueTests",
            dependencies: [
                "PushQueue",
                "PushQueueConformance",
                "SQLitePushQueue",
                apnsModel,
                grdb,
                logging,
            ]
        ),
        // For tests: servers of PostgreSQL as processes of their own.
        .target(
            name: "PostgresTestServer",
            dependencies: ["PushQueueConformance"],
            path: "Tests/PostgresTestServer"
        ),
        .testTarget(
            name: "PostgresPushQueueTests",
            dependencies: [
                "PostgresPushQueue",
                "PostgresTestServer",
                "PushQueue",
                "PushQueueConformance",
                "SQLitePushQueue",
                apnsModel,
                logging,
            ],
            exclude: ["record-locks.sql"]
        ),
        // Measures the relay; no product.
        .executableTarget(
            name: "relay-bench",
            dependencies: [
                "APNSRelay",
                "PostgresPushQueue",
                "PostgresTestServer",
                "PushQueue",
                "RelayTestSupport",
                "SQLitePushQueue",
                "WebPushGateway",
                apnsModel,
                apnsPool,
                apnsSimulator,
                argumentParser,
                crypto,
                httpTypes,
                logging,
                nioCore,
                nioHTTP1,
                nioPosix,
            ],
            path: "Benchmarks"
        ),
        // For ci/steps/fuzz-web-push, which links it with libFuzzer.
        .executableTarget(
            name: "web-push-fuzz",
            dependencies: [
                "WebPushGateway",
                apnsModel,
                httpTypes,
            ],
            path: "Tests/WebPushFuzz",
            exclude: ["corpus"]
        ),
        // For the tests: a relay that kills or stops itself at a named point.
        .executableTarget(
            name: "KillableRelay",
            dependencies: [
                "APNSRelay",
                "PushQueue",
                "PushQueueConformance",
                "SQLitePushQueue",
                apnsModel,
            ],
            path: "Tests/KillableRelay"
        ),
        // For tests of relays: an HTTP client, and relays in processes of their own.
        .target(
            name: "RelayTestSupport",
            dependencies: [
                "CLibcurl",
                "PushQueueConformance",
                apnsModel,
                apnsSimulator,
                nioHTTP1,
            ],
            path: "Tests/RelayTestSupport"
        ),
        .testTarget(
            name: "FleetTests",
            dependencies: [
                "KillableRelay",
                "PostgresTestServer",
                "PushQueueConformance",
                "RelayTestSupport",
                apnsSimulator,
            ]
        ),
        .testTarget(
            name: "APNSRelayTests",
            dependencies: [
                "APNSRelay",
                "AppAttestTestDevice",
                "KillableRelay",
                "PostgresPushQueue",
                "PostgresTestServer",
                "PushQueue",
                "PushQueueConformance",
                "RelayTestSupport",
                "SQLitePushQueue",
                "WebPushGateway",
                apnsPool,
                apnsSimulator,
                crypto,
                httpTypes,
                hummingbird,
                logging,
                metrics,
                .product(name: "MetricsTestKit", package: "swift-metrics"),
                nioCore,
                nioHTTP1,
                nioPosix,
                serviceLifecycle,
                supervisedPool,
            ]
        ),
    ]
)

for target in package.targets where target.type != .system { target.swiftSettings = settings }
