import Foundation
import Testing

/// What a user resolves and builds because of this package. A further one is a decision, not an accident.
private let dependencies: Set<String> = [
    "swift-argument-parser", "swift-asn1", "swift-async-algorithms", "swift-atomics", "swift-collections",
    "swift-crypto", "swift-distributed-tracing", "swift-log", "swift-metrics", "swift-nio", "swift-service-lifecycle",
    "swift-system",
]

/// What the traits add to it.
private var ofTraits: Set<String> {
    #if YAML
        ["swift-configuration", "yams"]
    #elseif Configuration
        ["swift-configuration"]
    #else
        []
    #endif
}

@Suite struct DependencyTests {
    private struct Resolved: Decodable {
        struct Pin: Decodable { var identity: String }
        var pins: [Pin]
    }

    @Test func resolvedDependenciesAreTheOnesListedHere() throws {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let data = try Data(contentsOf: root.appendingPathComponent("Package.resolved"))
        let resolved = try JSONDecoder().decode(Resolved.self, from: data)
        // What the traits add is not in it when a build without them was the last to write it.
        #expect(Set(resolved.pins.map(\.identity)).subtracting(ofTraits) == dependencies)
    }
}
