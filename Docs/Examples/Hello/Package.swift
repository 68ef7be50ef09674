// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Hello",
    platforms: [.macOS(.v15)],
    dependencies: [
        // In a copy of this folder, name the repository's address instead.
        .package(name: "swift-apns-pool", path: "../../..")
    ],
    targets: [
        .executableTarget(
            name: "Hello",
            dependencies: [.product(name: "APNSPool", package: "swift-apns-pool")],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
        .testTarget(
            name: "HelloTests",
            dependencies: ["Hello", .product(name: "APNSTesting", package: "swift-apns-pool")],
            swiftSettings: [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]
        ),
    ]
)
