import APNSPool
import Logging

#if canImport(Darwin)
    import Darwin
#elseif canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// What a process holds whose client does nothing: the least program around a client, since what else a program has in
/// it (the harness: a simulator, an argument parser, histograms) is not the pool's.
///
/// `idle PORT CA-FILE KEY-FILE CONNECTIONS MILLISECONDS` connects to localhost with a key as the developer portal gives it,
/// sends a push on each connection, waits, and prints in bytes: the resident set before there was a client, the resident
/// set now, and how much of it is memory of its own, not pages of the program's and the libraries' files.
@main
struct Idle {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 6, let port = Int(arguments[1]), let connections = Int(arguments[4]),
            let milliseconds = Int(arguments[5])
        else { throw IdleError("usage: idle PORT CA-FILE KEY-FILE CONNECTIONS MILLISECONDS") }

        let before = try Memory.ofThisProcess()
        let client = try APNSClient(
            configuration: APNSClientConfiguration(
                authentication: .token(keyFile: arguments[3], keyID: "ABC123DEFG", teamID: "ABCDE12345"),
                environment: .custom(host: "localhost", port: port),
                pool: .init(size: connections, connectSpacing: .zero),
                trust: .init(caFile: arguments[2]),
                logger: Logger(label: "idle") { _ in SwiftLogNoOpLogHandler() }
            )
        )
        try await client.start()
        try await client.prewarm(connections)
        let push = try PushNotification(topic: "com.grasscove.Fern", alert: Alert(title: "Hey There")).prepared()
        for _ in 0..<connections {
            let outcome = await client.deliver(push, to: String(repeating: "0123456789abcdef", count: 4))
            if let error = outcome.error { throw error }
        }
        try await Task.sleep(for: .milliseconds(milliseconds))
        let after = try Memory.ofThisProcess()
        print(before.resident, after.resident, after.resident - after.ofFiles)
        await client.shutdown()
    }
}

/// In bytes.
private struct Memory {
    var resident: Int
    var ofFiles: Int

    /// The second and third number of `/proc/self/statm`, in pages.
    static func ofThisProcess() throws -> Memory {
        let descriptor = open("/proc/self/statm", O_RDONLY)
        guard descriptor >= 0 else { throw IdleError("no /proc/self/statm: this needs Linux") }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = bytes.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
        let numbers = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(separator: " ")
            .compactMap { Int($0) }
        guard numbers.count > 2 else { throw IdleError("/proc/self/statm is unreadable") }
        let page = Int(sysconf(Int32(_SC_PAGESIZE)))
        return Memory(resident: numbers[1] * page, ofFiles: numbers[2] * page)
    }
}

struct IdleError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
