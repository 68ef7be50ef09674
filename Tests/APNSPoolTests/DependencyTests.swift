import Foundation
import TestSupport
import Testing

/// The packages that a user of this package resolves and builds. Adding one must be a deliberate decision.
private let dependencies: Set<String> = [
    "swift-argument-parser", "swift-async-algorithms", "swift-atomics", "swift-collections",
    "swift-distributed-tracing", "swift-log", "swift-metrics", "swift-nio", "swift-service-lifecycle", "swift-system",
]

struct DependencyTests {
    /// A package as `swift package show-dependencies --format json` shows it.
    private struct Package: Decodable {
        var identity: String
        var dependencies: [Package]

        /// The identities of this package and of all its dependencies.
        var identities: Set<String> { self.dependencies.reduce(into: [self.identity]) { $0.formUnion($1.identities) } }
    }

    @Test("A package that depends on APNSPool resolves only these packages: neither swift-crypto nor swift-asn1")
    func resolvedByUsers() throws {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: folder) }
        let sources = folder.appendingPathComponent("Sources/App")
        try FileManager.default.createDirectory(at: sources, withIntermediateDirectories: true)
        try Data("import APNSPool\n".utf8).write(to: sources.appendingPathComponent("App.swift"))
        let manifest = """
            // swift-tools-version: 6.2
            import PackageDescription

            let package = Package(
                name: "app",
                platforms: [.macOS(.v15)],
                dependencies: [.package(name: "swift-apns-pool", path: "\(root.path)")],
                targets: [
                    .target(name: "App", dependencies: [.product(name: "APNSPool", package: "swift-apns-pool")])
                ]
            )

            """
        try Data(manifest.utf8).write(to: folder.appendingPathComponent("Package.swift"))
        let output = folder.appendingPathComponent("dependencies.json")
        let errorFile = folder.appendingPathComponent("errors.txt")
        #expect(FileManager.default.createFile(atPath: errorFile.path, contents: nil))

        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "swift", "package", "--package-path", folder.path, "show-dependencies", "--format", "json",
            "--output-path", output.path,
        ]
        process.standardOutput = FileHandle.nullDevice
        let errors = try FileHandle(forWritingTo: errorFile)
        process.standardError = errors
        try process.start()
        process.waitUntilExit()
        try errors.close()
        let errorText = try String(contentsOf: errorFile, encoding: .utf8)
        try #require(process.terminationStatus == 0, "\(errorText)")

        let app = try JSONDecoder().decode(Package.self, from: Data(contentsOf: output))
        let pool = try #require(app.dependencies.first { $0.dependencies.isEmpty == false })
        #expect(app.dependencies.count == 1)
        #expect(pool.identities.subtracting([pool.identity]) == dependencies)
    }
}
