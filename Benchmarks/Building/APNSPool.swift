import APNSPool

/// Sends one push with a key from a file, and idles until its input ends: the least program that `build.sh` measures.
@main
struct Program {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let configuration = APNSClientConfiguration(
            authentication: .token(keyFile: arguments[3], keyID: arguments[4], teamID: arguments[5]),
            environment: .custom(host: "localhost", port: Int(arguments[1]) ?? 443),
            pool: .init(size: 1, maxOverflow: 0),
            trust: .init(caFile: arguments[2])
        )
        try await withAPNSClient(configuration: configuration) { client in
            let notification = PushNotification(topic: "com.example.app", alert: "Hello")
            try await client.send(notification, to: String(repeating: "0123456789abcdef", count: 4))
            _ = readLine()
        }
    }
}
