import APNSPool
import NIOCore

// The calls of APNSwift that the library knows as unavailable, as that library's users write them. Code that is itself
// unavailable may use them, so this file compiles only while each of them exists with these parameters.

private struct Payload: Encodable {}

@available(*, unavailable)
func clientsOfAPNSwift(key: some Any, coder: some Any, loops: any EventLoopGroup) throws -> [APNSClient] {
    let configuration = APNSClientConfiguration(
        authenticationMethod: .jwt(privateKey: key, keyIdentifier: "9UC9ZLQ8YW", teamIdentifier: "ABBM6U9RM5"),
        environment: .sandbox
    )
    let other = APNSClientConfiguration(
        authenticationMethod: .tls(privateKey: key, certificateChain: [key]),
        environment: .custom(url: "https://localhost", port: 2197)
    )
    return [configuration, other].map {
        APNSClient(
            configuration: $0,
            eventLoopGroupProvider: .shared(loops),
            responseDecoder: coder,
            requestEncoder: coder
        )
    }
}

@available(*, unavailable)
func callsOfAPNSwift(_ client: APNSClient, to deviceToken: String) async throws {
    try await client.sendAlertNotification(
        .init(
            alert: .init(title: .raw("Hey"), subtitle: .localized(key: "SUB", arguments: ["Ada"]), body: .raw("There")),
            expiration: .immediately,
            priority: .consideringDevicePower,
            topic: "com.example.app",
            payload: EmptyPayload(),
            badge: 1
        ),
        deviceToken: deviceToken
    )
    try await client.sendAlertNotification(
        APNSAlertNotification(
            alert: APNSAlertNotificationContent(title: .raw("Hey")),
            expiration: .timeIntervalSince1970InSeconds(1_700_000_000),
            priority: .immediately,
            topic: "com.example.app",
            payload: Payload()
        ),
        deviceToken: deviceToken
    )
    try await client.sendBackgroundNotification(
        APNSBackgroundNotification(expiration: .immediately, topic: "com.example.app", payload: Payload()),
        deviceToken: deviceToken
    )
    try await client.sendAlertNotification(PushNotification(alert: "Hey"), deviceToken: deviceToken)
    try await client.sendBackgroundNotification(.background(), deviceToken: deviceToken)
    try await client.sendVoIPNotification(
        .init(expiration: .immediately, priority: .immediately, appID: "com.example.app", payload: Payload()),
        deviceToken: deviceToken
    )
    try await client.sendComplicationNotification(
        .init(expiration: .immediately, priority: .immediately, appID: "com.example.app", payload: Payload()),
        deviceToken: deviceToken
    )
    try await client.sendFileProviderNotification(
        .init(expiration: .immediately, appID: "com.example.app", payload: Payload()),
        deviceToken: deviceToken
    )
    try await client.sendStartLiveActivityNotification(Payload(), deviceToken: deviceToken)
    try await client.sendLiveActivityNotification(Payload(), deviceToken: deviceToken)
}
