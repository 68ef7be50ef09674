// The examples of Docs/Testing.md, which are tests themselves. `make format` copies what stands between `// example`
// and `// end of example` from the page.
// swift-format-ignore-file

import APNSPool
import APNSSimulator
import APNSTesting
import Testing

// example Docs/Testing.md 1-4
struct User: Sendable {
    var name: String
    var deviceToken: DeviceToken
}

/// Greets a user. False: the device is gone, and its token should be deleted.
func greet(_ user: User, with sender: some PushSender) async -> Bool {
    let notification = PushNotification(topic: "com.grasscove.Fern", alert: "Hello, \(user.name)!")
    return await sender.deliver(notification, to: user.deviceToken).invalidation == nil
}

@Test func theGreetingNamesTheUser() async throws {
    let sender = RecordingPushSender()
    let user = User(name: "Ada", deviceToken: try DeviceToken("00fa11ce"))
    #expect(await greet(user, with: sender))
    let greeting = try #require(sender.pushes.first)
    #expect(greeting.token == user.deviceToken)
    #expect(greeting.alert?.body == "Hello, Ada!")
}

@Test func aUserWhoseDeviceIsGoneIsTold() async throws {
    let sender = RecordingPushSender { _, _ in
        let gone = Rejection(status: 410, reason: .unregistered, timestamp: 1_700_000_000_000)
        return .failed(.rejected(gone, attempts: 1))
    }
    let user = User(name: "Ada", deviceToken: try DeviceToken("00fa11ce"))
    #expect(await greet(user, with: sender) == false)
}

@Test func apnsKnowsWhichDeviceIsGone() async throws {
    try await withSimulatedAPNS { client, simulator in
        simulator.setToken("00fa11ce", .unregistered(sinceMilliseconds: 1_700_000_000_000))
        let gone = User(name: "Ada", deviceToken: try DeviceToken("00fa11ce"))
        let there = User(name: "Bob", deviceToken: try DeviceToken("00fa11cf"))
        #expect(await greet(gone, with: client) == false)
        #expect(await greet(there, with: client))
        #expect(simulator.record.pushes.map(\.status) == [410, 200])
    }
}
// end of example

// example Docs/Testing.md 6-8
@Test func aNewScoreReplacesTheOldOne() async throws {
    try await withSimulatedAPNS { client, simulator in
        for score in ["1:0", "2:0"] {
            let push = PushNotification(topic: "com.grasscove.Fern", alert: Alert(title: score)).collapseID("match-42")
            #expect(await client.deliver(push, to: "00fa11ce").certainty == .accepted)
        }
        let phone = simulator.snapshot(ofToken: "00fa11ce")
        let notification = try #require(phone.apps.first?.notifications.first)
        #expect(notification.title == "2:0")
        #expect(notification.collapseID == "match-42")
        #expect(notification.replaced == 1)
    }
}

@Test func nobodyIsGreetedTwiceWhenConnectionsBreak() async throws {
    try await withSimulatedAPNS { client, simulator in
        simulator.inject(Fault(.goAway(reason: "Shutdown"), when: .nth(3)))
        simulator.inject(.refuse(count: 2))
        for number in 10..<20 {
            let user = User(name: "\(number)", deviceToken: try DeviceToken("00fa11\(number)"))
            #expect(await greet(user, with: client))
        }
        let record = simulator.record
        #expect(record.requestsProcessed == 10)
        #expect(record.duplicates.isEmpty)
    }
}

@Test func aPushWithoutAResponseIsUnknown() async throws {
    try await withSimulatedAPNS(configure: { $0.timeouts.response = .milliseconds(200) }) { client, simulator in
        simulator.inject(Fault(.stall(isProcessed: true)))
        let push = PushNotification(topic: "com.grasscove.Fern", alert: "Hello?")
        let outcome = await client.deliver(push, to: "00fa11ce")
        #expect(outcome.certainty == .unknown)
        #expect(!outcome.canResend)
        #expect(simulator.record.requestsProcessed == 1)
    }
}
// end of example
