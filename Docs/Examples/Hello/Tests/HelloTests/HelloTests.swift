import APNSPool
import APNSSimulator
import APNSTesting
import Testing

@testable import Hello

@Test func theStatusTellsWhatHappened() async throws {
    try await withSimulatedAPNS { client, simulator in
        simulator.setToken("00fa11cf", .unregistered(sinceMilliseconds: 1_700_000_000_000))
        #expect(await send("Hello", to: "00fa11ce", with: client) == 0)
        #expect(await send("Hello", to: "00fa11cf", with: client) == 1)
        #expect(await send("Hello", to: "no token", with: client) == 1)
    }
}
