import APNSPool
import APNSSimulator
import ArgumentParser
import Logging
import NIOPosix

/// A campaign through ten seconds of each kind of fault, and what became of its rows.
struct Outages: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Sends a campaign through each kind of fault, and prints what became of its rows.",
        discussion: """
            For each fault there is a new simulator and a new client with the default settings. The fault begins after a part \
            of the rows, meets every push while it lasts, and ends by itself. The columns: rows by outcome; rows that the \
            simulator processed twice; seconds from the fault's end to the last outcome; the reason for which the call held \
            its input; and the health after half of the fault, at most five seconds.
            """
    )

    @Option(help: "The rows of a campaign.")
    var rows = 20_000

    @Option(help: "How long each fault lasts, in seconds.")
    var seconds = 10.0

    @Option(help: "The rows after which the fault begins.")
    var after = 8_000

    @Option(help: ArgumentHelp("How many pushes may be in flight; the library's default without it.", valueName: "n"))
    var inFlight: Int?

    @Option(help: "How many tasks send single pushes instead of one bulk call.")
    var tasks: Int?

    @Option(help: ArgumentHelp("Only faults whose names contain this text.", valueName: "text"))
    var only: String?

    func run() throws {
        try blocking { try await execute() }
    }

    private static let faults: [(name: String, effect: FaultEffect)] = [
        ("502 without a reason", .respond(status: 502, reason: nil)),
        ("503 without a reason", .respond(status: 503, reason: nil)),
        ("RST_STREAM INTERNAL_ERROR", .reset(code: 2)),
        ("429 TooManyProviderTokenUpdates", .respond(.tooManyProviderTokenUpdates)),
        ("403 ExpiredProviderToken", .respond(.expiredProviderToken)),
        ("500 InternalServerError", .respond(.internalServerError)),
        ("503 ServiceUnavailable", .respond(.serviceUnavailable)),
        ("503 Shutdown", .respond(.shutdown)),
        ("403 InvalidProviderToken", .respond(.invalidProviderToken)),
        ("connections dropped", .dropConnection()),
        ("streams refused", .reset(code: 7)),
        ("no response", .stall()),
    ]

    private func execute() async throws {
        let columns = "accepted rejected not-proc not-sent  unknown twice  after  hold | health"
        print("fault                            \(columns)")
        for (name, effect) in Self.faults where only.map({ name.contains($0) }) ?? true {
            print(try await measure(name, effect))
        }
    }

    private func measure(_ name: String, _ effect: FaultEffect) async throws -> String {
        let simulator = try await Simulator.start()
        let key = SimulatedKey()
        simulator.addKey(key)
        var configuration = APNSClientConfiguration(
            authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID),
            environment: .custom(host: "localhost", port: simulator.port),
            logger: Logger(label: "outages") { _ in SwiftLogNoOpLogHandler() }
        )
        configuration.trust.caPEM = simulator.certificateAuthorityPEM
        let client = try APNSClient(configuration: configuration)
        try await client.start()
        let push = try PushNotification(topic: "com.grasscove.Fern", alert: "Hey There").prepared()
        let control = BulkControl()
        let campaign = Task { await self.send(push, with: client, control) }
        while simulator.record.requestsProcessed < after { try await Task.sleep(for: .milliseconds(2)) }
        let clock = ContinuousClock()
        let end = clock.now.advanced(by: .seconds(seconds))
        simulator.inject(Fault(effect, when: .during(.zero..<(.seconds(seconds)))))
        try await Task.sleep(for: .seconds(min(seconds / 2, 5)))
        let health = await client.health
        let hold = control.progress.hold?.message ?? "-"
        let summary = await campaign.value
        let late = end.duration(to: clock.now) / .seconds(1)
        await client.shutdown()
        let twice = simulator.record.duplicates.count
        await simulator.stop()
        let numbers = [summary.accepted, summary.rejected, summary.notProcessed, summary.notSent, summary.unknown]
        func padded(_ text: String, _ width: Int) -> String {
            String(repeating: " ", count: max(width - text.count, 0)) + text
        }
        return name + String(repeating: " ", count: max(33 - name.count, 0))
            + numbers.map { padded("\($0)", 8) }.joined(separator: " ") + padded("\(twice)", 6)
            + padded("\((late * 10).rounded() / 10)", 7) + "  \(hold) | \(health)"
    }

    private func send(_ push: PreparedPush, with client: APNSClient, _ control: BulkControl) async -> BulkSummary {
        guard let tasks else {
            var options = BulkOptions(control: control)
            if let inFlight { options.maxInFlight = inFlight }
            return await client.sendAll(push, to: (0..<rows).map(Self.token), options: options)
        }
        return await withTaskGroup(of: BulkSummary.self) { group in
            for task in 0..<tasks {
                group.addTask {
                    var summary = BulkSummary()
                    for row in stride(from: task, to: self.rows, by: tasks) {
                        summary.count(await client.deliver(push, to: Self.token(row)).certainty)
                    }
                    return summary
                }
            }
            return await group.reduce(into: BulkSummary()) { total, part in
                total.accepted += part.accepted
                total.rejected += part.rejected
                total.notProcessed += part.notProcessed
                total.notSent += part.notSent
                total.unknown += part.unknown
            }
        }
    }

    private static func token(_ row: Int) -> DeviceToken {
        let digits = String(row, radix: 16)
        guard let token = try? DeviceToken(String(repeating: "0", count: 64 - digits.count) + digits) else {
            preconditionFailure("hexadecimal digits are a device token")
        }
        return token
    }
}
