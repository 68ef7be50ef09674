// The example of `Docs/Configuration.md` with swift-configuration, word for word, compiled with the trait.
// swift-format-ignore-file
#if Configuration
import SystemPackage  // for FilePath, where the compiler asks for it
import APNSPool
import Configuration

func fromReader() async throws -> APNSClientConfiguration {
    let reader = ConfigReader(providers: [
        EnvironmentVariablesProvider(),
        try await FileProvider<JSONSnapshot>(filePath: "/etc/fern/push.json"),
    ])
    return try APNSClientConfiguration(reader)
}
#endif
