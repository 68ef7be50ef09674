// The example of `Docs/Configuration.md` with swift-configuration, compiled with the trait. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file
#if Configuration
import SystemPackage  // for FilePath, where the compiler asks for it
import APNSPool
import Configuration

// example Docs/Configuration.md 5
func fromReader() async throws -> APNSClientConfiguration {
    let reader = ConfigReader(providers: [
        EnvironmentVariablesProvider(),
        try await FileProvider<JSONSnapshot>(filePath: "/etc/fern/push.json"),
    ])
    return try APNSClientConfiguration(reader)
}
// end of example
#endif
