import APNSPool
import Foundation
import Logging

// The examples of `Docs/Configuration.md`. `make format` copies what stands between `// example` and `// end of
// example` from the page.
// swift-format-ignore-file

// example Docs/Configuration.md 1
func fromTexts() throws -> APNSClientConfiguration {
    try APNSClientConfiguration(settings: [.environment(), .jsonFile("/etc/fern/push.json")])
}
// end of example

// example Docs/Configuration.md 3
func fromCode(_ logger: Logger) throws -> APNSClientConfiguration {
    var configuration = APNSClientConfiguration(
        authentication: .token(keyFile: "/etc/fern/AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5"),
        pool: .init(size: 2),
        logger: logger
    )
    configuration.timeouts.deadline = .seconds(10)
    try configuration.apply(settings: [.environment()])  // what the environment says goes before the code
    return configuration
}
// end of example

// example Docs/Configuration.md 2
func fromVault(_ secrets: [String: String]) throws -> APNSClientConfiguration {
    try APNSClientConfiguration(
        settings: [.lookup("vault") { key in secrets[key] }, .environment()],
        prefix: "push.fern"  // push.fern.keyFile, PUSH_FERN_KEY_FILE
    )
}
// end of example

// example Docs/Configuration.md 4
func clientOrExit(_ logger: Logger) -> APNSClient {
    do {
        return try APNSClient(configuration: APNSClientConfiguration(settings: [.environment()]))
    } catch {
        logger.critical("\(error)")
        exit(78)
    }
}
// end of example
