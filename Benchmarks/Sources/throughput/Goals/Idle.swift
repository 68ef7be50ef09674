import APNSPool
import ArgumentParser

/// What a process holds whose client does nothing. A subcommand of its own, since only a fresh process can tell.
struct Idle: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Connects, sends one push on each connection, waits, and prints the resident set.",
        shouldDisplay: false
    )

    @OptionGroup var client: ClientOptions

    @Option(help: "How long to wait.")
    var seconds = 3.0

    func run() throws {
        print(try blocking { try await residentBytes() })
    }

    private func residentBytes() async throws -> Int {
        let workload = try Workload(topic: client.topic, payloadBytes: nil)
        let push = try workload.notification().prepared()
        let client = try APNSClient(configuration: try client.configuration(server: nil, maxQueued: 1))
        try await client.start()
        try await client.prewarm(self.client.poolSize)
        for number in 0..<self.client.poolSize {
            let outcome = await client.deliver(push, to: DeviceTokens.token(UInt64(number)))
            if let error = outcome.error { throw error }
        }
        try await Task.sleep(for: .seconds(seconds))
        let bytes = ProcessUsage.residentBytes()
        await client.shutdown()
        return bytes
    }
}
