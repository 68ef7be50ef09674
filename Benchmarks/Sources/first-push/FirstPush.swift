import APNSPool
import Logging

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// The smallest program that sends one push. It measures the time from the start of a process to its first push.
///
/// `first-push PORT CA-FILE KEY-FILE` connects to localhost with a .p8 key and sends a push. It prints three times of
/// the monotonic clock, in microseconds: the start of `main`, the connection is ready, the push is accepted.
@main
struct FirstPush {
    static func main() async throws {
        let begin = microseconds()
        let arguments = CommandLine.arguments
        guard arguments.count == 4, let port = Int(arguments[1]) else {
            throw UsageError(description: "usage: first-push PORT CA-FILE KEY-FILE")
        }
        let client = try APNSClient(
            configuration: APNSClientConfiguration(
                authentication: .token(keyFile: arguments[3], keyID: "ABC123DEFG", teamID: "ABCDE12345"),
                environment: .custom(host: "localhost", port: port),
                pool: .init(size: 1),
                trust: .init(caFile: arguments[2]),
                logger: Logger(label: "first-push") { _ in SwiftLogNoOpLogHandler() }
            )
        )
        try await client.start()
        try await client.prewarm(1)
        let ready = microseconds()
        let push = PushNotification(topic: "com.grasscove.Fern", alert: Alert(title: "Hey There"))
        let outcome = await client.deliver(push, to: String(repeating: "0123456789abcdef", count: 4))
        if let error = outcome.error { throw error }
        print(begin, ready, microseconds())
    }

    private static func microseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000 + UInt64(time.tv_nsec) / 1000
    }
}

private struct UsageError: Error, CustomStringConvertible {
    let description: String
}
