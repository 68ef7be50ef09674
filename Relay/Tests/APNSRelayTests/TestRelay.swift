import APNSModel
import APNSPool

@testable import APNSRelay

/// Settings for tests.
enum TestRelay {
    /// An app with the topic `com.example.<name>`, whose key cannot be used.
    static func app(
        _ name: String,
        environments: [String: APNSEnvironment] = ["production": .production, "development": .development]
    ) -> RelayApp {
        RelayApp(
            name: name,
            topic: "com.example.\(name)",
            authentication: .withoutToken,
            environments: environments
        )
    }
}
