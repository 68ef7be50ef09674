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

let pool = Target.Dependency.product(name: "APNSPool", package: "swift-apns-pool")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")

// A package of its own, so that users of the library resolve none of what only measuring needs.
let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        // By name and path: a bare path takes the folder's name, which differs from clone to clone.
        .package(name: "swift-apns-pool", path: ".."),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift.git", from: "0.2.0"),
        .package(url: "https://github.com/apple/swift-argument-parser.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.0"),
    ],
    targets: [
        .systemLibrary(name: "CMalloc"),
        .executableTarget(
            name: "throughput",
            dependencies: [
                .product(name: "APNSModel", package: "swift-apns-pool"),
                pool,
                .product(name: "APNSSimulator", package: "swift-apns-pool"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
                logging,
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .target(name: "CMalloc", condition: .when(platforms: [.linux])),
            ]
        ),
        .executableTarget(name: "first-push", dependencies: [pool, logging]),
        .executableTarget(name: "idle", dependencies: [pool, logging]),
    ]
)

for target in package.targets where target.type != .system { target.swiftSettings = settings }
