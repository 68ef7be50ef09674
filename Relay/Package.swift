// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

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
            dependencies: [.product(name: "APNSModel", package: "swift-apns-pool")],
            swiftSettings: settings
        ),
        .target(
            name: "SQLitePushQueue",
            dependencies: [
                "PushQueue",
                .product(name: "APNSModel", package: "swift-apns-pool"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings
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
                .product(name: "APNSModel", package: "swift-apns-pool"),
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "SupervisedPool", package: "swift-apns-pool"),
            ],
            swiftSettings: settings
        ),
        // Apple's root certificate for App Attest, and a part of the OpenAPI document, as bytes.
        .target(name: "CWebPushGatewayFiles", exclude: ["apple-app-attestation-root-ca.pem", "openapi.json"]),
        // The gateway for Web Push: on any queue, without a server.
        .target(
            name: "WebPushGateway",
            dependencies: [
                "CWebPushGatewayFiles",
                "PushQueue",
                .product(name: "APNSModel", package: "swift-apns-pool"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            swiftSettings: settings
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
                .product(name: "APNSPool", package: "swift-apns-pool"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "_APNSTransport", package: "swift-apns-pool"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "SupervisedPool", package: "swift-apns-pool"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "APNSRelayCommand",
            dependencies: [
                "APNSRelay",
                "PushQueue",
                "SQLitePushQueue",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings
        ),
        // For tests: the tests that both engines must pass, and what the tests of all targets share.
        .target(
            name: "PushQueueConformance",
            dependencies: ["PushQueue", .product(name: "APNSModel", package: "swift-apns-pool")],
            path: "Tests/PushQueueConformance",
            swiftSettings: settings
        ),
        // For tests: devices with keys of App Attest, and an authority that attests them.
        .target(
            name: "AppAttestTestDevice",
            dependencies: [
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            path: "Tests/AppAttestTestDevice",
            swiftSettings: settings
        ),
        .testTarget(
            name: "WebPushGatewayTests",
            dependencies: [
                "AppAttestTestDevice",
                "WebPushGateway",
                .product(name: "APNSModel", package: "swift-apns-pool"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ],
            exclude: ["validation-guide.txt"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "SQLitePushQueueTests",
            dependencies: [
                "PushQueue",
                "PushQueueConformance",
                "SQLitePushQueue",
                .product(name: "APNSModel", package: "swift-apns-pool"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings
        ),
        // For tests: servers of PostgreSQL as processes of their own.
        .target(
            name: "PostgresTestServer",
            dependencies: ["PushQueueConformance"],
            path: "Tests/PostgresTestServer",
            swiftSettings: settings
        ),
        .testTarget(
            name: "PostgresPushQueueTests",
            dependencies: [
                "PostgresPushQueue",
                "PostgresTestServer",
                "PushQueue",
                "PushQueueConformance",
                "SQLitePushQueue",
                .product(name: "APNSModel", package: "swift-apns-pool"),
                .product(name: "Logging", package: "swift-log"),
            ],
            exclude: ["record-locks.sql"],
            swiftSettings: settings
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
                .product(name: "APNSModel", package: "swift-apns-pool"),
                .product(name: "APNSPool", package: "swift-apns-pool"),
                .product(name: "APNSSimulator", package: "swift-apns-pool"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ],
            path: "Benchmarks",
            swiftSettings: settings
        ),
        // For ci/steps/fuzz-web-push, which links it with libFuzzer.
        .executableTarget(
            name: "web-push-fuzz",
            dependencies: [
                "WebPushGateway",
                .product(name: "APNSModel", package: "swift-apns-pool"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
            ],
            path: "Tests/WebPushFuzz",
            exclude: ["corpus"],
            swiftSettings: settings
        ),
        // For the tests: a relay that kills or stops itself at a named point.
        .executableTarget(
            name: "KillableRelay",
            dependencies: [
                "APNSRelay",
                "PushQueue",
                "PushQueueConformance",
                "SQLitePushQueue",
                .product(name: "APNSModel", package: "swift-apns-pool"),
            ],
            path: "Tests/KillableRelay",
            swiftSettings: settings
        ),
        // For tests of relays: an HTTP client, and relays in processes of their own.
        .target(
            name: "RelayTestSupport",
            dependencies: [
                "CLibcurl",
                "PushQueueConformance",
                .product(name: "APNSModel", package: "swift-apns-pool"),
                .product(name: "APNSSimulator", package: "swift-apns-pool"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            path: "Tests/RelayTestSupport",
            swiftSettings: settings
        ),
        .testTarget(
            name: "FleetTests",
            dependencies: [
                "KillableRelay",
                "PostgresTestServer",
                "PushQueueConformance",
                "RelayTestSupport",
                .product(name: "APNSSimulator", package: "swift-apns-pool"),
            ],
            swiftSettings: settings
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
                .product(name: "APNSPool", package: "swift-apns-pool"),
                .product(name: "APNSSimulator", package: "swift-apns-pool"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "SupervisedPool", package: "swift-apns-pool"),
            ],
            swiftSettings: settings
        ),
    ]
)
