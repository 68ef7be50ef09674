import TestSupport
import Testing

@testable import APNSSimulator
@testable import APNSTransport

/// Clients that flood the simulator. It closes their connections, and serves the others.
struct HostileClientTests {
    struct Flood: CustomStringConvertible, Sendable {
        let description: String
        let frame: RawFrame
    }

    private static let zeros = [UInt8](repeating: 0, count: 8)

    /// Stream 1 has received its headers and waits for its body. Stream 3 is closed.
    static let floods: [Flood] = [
        Flood(description: "PING", frame: RawFrame(type: 6, payload: Self.zeros)),
        Flood(description: "SETTINGS", frame: RawFrame(type: 4, payload: [0, 3, 0, 0, 0, 1, 0, 4, 0, 0, 0, 1])),
        Flood(description: "WINDOW_UPDATE", frame: RawFrame(type: 8, payload: [0, 0, 0, 1])),
        Flood(description: "PRIORITY", frame: RawFrame(type: 2, stream: .number(1), payload: [0, 0, 0, 0, 1])),
        Flood(description: "empty DATA", frame: RawFrame(type: 0, stream: .number(1))),
        Flood(description: "an unknown type", frame: RawFrame(type: 0xFA)),
        Flood(
            description: "RST_STREAM on a closed stream",
            frame: RawFrame(type: 3, stream: .number(3), payload: [0, 0, 0, 8])
        ),
        Flood(description: "CONTINUATION", frame: RawFrame(type: 9, stream: .number(5))),
        Flood(
            description: "WINDOW_UPDATE that overflows",
            frame: RawFrame(type: 8, payload: [0x7F, 0xFF, 0xFF, 0xFF])
        ),
    ]

    @Test("A flood ends its connection, and no other", arguments: floods)
    func floodEndsItsConnection(_ flood: Flood) async throws {
        let jwt = try SimulatedKey().providerToken(issuedAt: Sample.now)
        let simulator = try await Simulator.start()
        let neighbour = try WireClient(simulator)
        #expect(await neighbour.open())
        #expect(await neighbour.send(1, jwt: jwt).map(\.status) == [200])

        let client = try await RawClient.connect(simulator)
        client.start()
        client.push(1, jwt: jwt, body: nil)
        client.push(3, jwt: jwt)
        #expect(try await client.frame { $0.streamID == 3 } != nil)
        if flood.frame.type == 9 { client.send(RawFrame(type: 1, stream: .number(5)).bytes(requestStreamID: 0)) }
        let bytes = flood.frame.bytes(requestStreamID: 0)
        client.send((0..<13_000).flatMap { _ in bytes })
        #expect(try await client.waitForEnd() != nil)
        await client.close()
        try await simulator.waitUntil(timeout: Patience.limit) { $0.connectionsClosed == 1 }
        #expect(simulator.openConnections == 1)
        #expect(await neighbour.send(1, jwt: jwt).map(\.status) == [200])
        await neighbour.close()
        await simulator.stop()
    }
}
