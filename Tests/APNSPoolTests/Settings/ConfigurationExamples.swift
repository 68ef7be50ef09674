import APNSPool
import Logging

// The compiled examples of `Docs/Configuration.md`, word for word.
// swift-format-ignore-file

func fromTexts() throws -> APNSClientConfiguration {
    try APNSClientConfiguration(settings: [.environment(), .jsonFile("/etc/fern/push.json")])
}

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

func fromVault(_ secrets: [String: String]) throws -> APNSClientConfiguration {
    try APNSClientConfiguration(
        settings: [.lookup("vault") { key in secrets[key] }, .environment()],
        prefix: "push.fern"  // push.fern.keyFile, PUSH_FERN_KEY_FILE
    )
}
