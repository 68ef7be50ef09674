import APNSPool
import APNSSimulator
import APNSTesting
import Testing

@testable import APNSPoolTestSupport

/// `sendAll` counts the outcomes of its rows, and reports the rows whose device tokens are dead.
struct SendAllTests {
    private struct Device: Sendable, Equatable {
        var name: String
        var token: String
    }

    private struct DatabaseError: Error {}

    private static let devices = [
        Device(name: "a", token: "00fa11a0"), Device(name: "b", token: "00fa11b0"),
        Device(name: "c", token: "00fa11c0"),
        Device(name: "d", token: "no token"),
    ]

    private let notification = PushNotification(topic: "com.example.app", alert: "Hey There")

    /// A sender that finds the devices `b` and `c` gone.
    private func sender() -> RecordingPushSender {
        RecordingPushSender { _, token in
            guard token.hexadecimal != "00fa11a0" else { return .accepted(Receipt(apnsID: .random())) }
            let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000)
            return .failed(.rejected(gone, attempts: 1))
        }
    }

    private func check(_ summary: BulkSummary) {
        #expect(summary.accepted == 1 && summary.rejected == 2 && summary.notSent == 1 && summary.isFinished)
        #expect("\(summary)" == "4 pushes: 1 accepted, 2 rejected (2 Unregistered), 1 not sent")
    }

    @Test func eachDeadTokenIsReportedWithItsRow() async throws {
        var gone: [Device] = []
        let summary = try await self.sender().sendAll(self.notification, to: Self.devices, token: \.token) {
            device,
            end in
            if end.shouldRemove(registeredAt: nil) { gone.append(device) }
        }
        self.check(summary)
        #expect(gone == Array(Self.devices[1...2]))
        self.check(await self.sender().sendAll(self.notification, to: Self.devices, token: \.token))
    }

    @Test func eachDeadTokenOfAListIsReported() async throws {
        let tokens = Self.devices.map(\.token)
        var gone: [String] = []
        self.check(try await self.sender().sendAll(self.notification, to: tokens) { token, _ in gone.append(token) })
        #expect(gone == ["00fa11b0", "00fa11c0"])
    }

    @Test func eachDeadTokenOfAnAsynchronousInputIsReported() async throws {
        let rows = AsyncStream { continuation in
            for device in Self.devices { continuation.yield(device) }
            continuation.finish()
        }
        var gone: [Device] = []
        let summary = try await self.sender().sendAll(self.notification, to: rows, token: \.token) { device, _ in
            gone.append(device)
        }
        self.check(summary)
        #expect(gone == Array(Self.devices[1...2]))
    }

    @Test func anErrorOfTheClosureEndsTheCall() async {
        let control = BulkControl()
        let options = BulkOptions(control: control)
        await #expect(throws: DatabaseError.self) {
            try await self.sender().sendAll(self.notification, to: Self.devices, token: \.token, options: options) {
                device,
                _ in
                throw DatabaseError()
            }
        }
        #expect(control.progress.outcomes.accepted == 1 && control.progress.outcomes.rejected == 1)
        #expect(!control.progress.isFinished)
    }

    @Test("The closure keeps the isolation of its caller, also with a sender of unknown type")
    func theClosureRunsOnTheActorOfItsCaller() async throws {
        actor Store {
            var gone: [String] = []
            func announce(_ push: PushNotification, with sender: any PushSender) async throws -> BulkSummary {
                try await sender.sendAll(push, to: SendAllTests.devices, token: \.token) { device, _ in
                    self.gone.append(device.name)
                }
            }
        }
        let store = Store()
        self.check(try await store.announce(self.notification, with: self.sender()))
        #expect(await store.gone == ["b", "c"])
    }

    @Test func aClientReportsWhatAPNsReports() async throws {
        try await withPatientSimulator { client, simulator in
            simulator.setToken("00fa11b0", .unregistered(sinceMilliseconds: 1_700_000_000_000))
            var gone: [String] = []
            let tokens = ["00fa11a0", "00fa11b0"]
            let summary = try await client.sendAll(self.notification, to: tokens) { token, end in
                #expect(end.millisecondsSince1970 == 1_700_000_000_000)
                gone.append(token)
            }
            #expect(gone == ["00fa11b0"])
            #expect(summary.accepted == 1 && summary.rejections == [.unregistered: 1])
        }
    }

    @Test("A loop counts its outcomes as the call itself does")
    func aLoopCountsAsTheCallDoes() async {
        var summary = BulkSummary()
        let deliveries = self.sender().deliveries(of: self.notification, to: Self.devices, token: \.token)
        for await delivery in deliveries { summary.count(delivery.outcome) }
        let counted = deliveries.control.progress.outcomes
        #expect(summary.rejections == counted.rejections)
        summary.isFinished = counted.isFinished
        self.check(summary)
    }
}
