// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "NotificationService",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "swift-apns-pool", path: "../../.."),
        .package(
            url: "https://github.com/hummingbird-project/hummingbird.git",
            from: "2.28.1",
            // Neither reading its configuration from files nor all of Foundation is needed here.
            traits: []
        ),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.0"),
        .package(url: "https://github.com/groue/GRDB.swift.git", from: "7.10.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    ],
    targets: [
        .executableTarget(
            name: "NotificationService",
            dependencies: [
                .product(name: "APNSPool", package: "swift-apns-pool"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
        .testTarget(
            name: "NotificationServiceTests",
            dependencies: ["NotificationService", .product(name: "APNSTesting", package: "swift-apns-pool")],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
    ]
)
