import APNSPool
import APNSSimulator
import APNSTesting
import Foundation
import Testing

@testable import NotificationService

@Test func deadTokensAreRemovedUnlessRegisteredAgain() async throws {
    let path = NSTemporaryDirectory() + "devices-\(UUID()).sqlite"
    defer { for suffix in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + suffix) } }
    let store = try DeviceStore(path: path)
    let (living, dead, again) = (try DeviceToken("00fa11ce"), try DeviceToken("00fa11cf"), try DeviceToken("00fa11d0"))
    let died = Date(timeIntervalSince1970: 1_700_000_000)
    try await store.register(living, of: "ada")
    try await store.register(dead, of: "ada", at: died - 60)
    try await store.register(again, of: "ada", at: died + 60)
    try await withSimulatedAPNS { client, simulator in
        simulator.setToken(dead.hexadecimal, .unregistered(sinceMilliseconds: 1_700_000_000_000))
        simulator.setToken(again.hexadecimal, .unregistered(sinceMilliseconds: 1_700_000_000_000))
        let id = try await store.announce("Full moon tonight")
        try await AnnouncementService(sender: client, store: store).send(id, title: "Full moon tonight")
        #expect(try await store.counts(of: id) == ["accepted": 1, "rejected": 2])
        #expect(try await store.tokens(of: "ada") == ["00fa11ce", "00fa11d0"])
        #expect(simulator.record.requestsProcessed == 1)
    }
}
