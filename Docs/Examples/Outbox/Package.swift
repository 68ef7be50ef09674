// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Outbox",
    platforms: [.macOS(.v15)],
    dependencies: [
        // In a copy of this folder, name the repository's address instead.
        .package(name: "swift-apns-pool", path: "../../.."),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", from: "2.13.0"),
    ],
    targets: [
        .executableTarget(
            name: "Outbox",
            dependencies: [
                .product(name: "APNSPool", package: "swift-apns-pool"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
        .testTarget(
            name: "OutboxTests",
            dependencies: ["Outbox", .product(name: "APNSTesting", package: "swift-apns-pool")],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
    ]
)
