import APNSSimulator
import Foundation
import RelayTestSupport
import Testing

/// Kills the relay while a homeserver pushes to several devices.
struct MatrixKillTests {
    @Test(
        "A homeserver that repeats a request after a kill reaches each device once",
        .timeLimit(.minutes(5)),
        arguments: ["enqueue.before:1", "enqueue.after:1"]
    )
    func repetition(point: String) async throws {
        var configuration = Simulator.Configuration()
        configuration.credential = .none
        configuration.environment = .production
        let simulator = try await Simulator.start(configuration)
        let relay = try RelayUnderTest(
            port: simulator.port,
            certificateAuthority: simulator.certificateAuthorityPEM,
            settings: ["APP_FERN_MATRIX_APP_IDS": "im.fern.ios"]
        )
        let devices = (1...3).map { number in
            let pushkey = Data(repeating: UInt8(number), count: 32).base64EncodedString()
            return #"{"app_id":"im.fern.ios","pushkey":"\#(pushkey)"}"#
        }
        let body = #"{"notification":{"event_id":"$e","room_id":"!r","devices":[\#(devices.joined(separator: ","))]}}"#
        func notify() async throws -> Int {
            let path = "/_matrix/push/v1/notify"
            return try await relay.request("POST", path, body: body, type: "application/json").status
        }
        try await relay.start(killPoint: point)
        await #expect(throws: (any Error).self) { try await notify() }
        await relay.waitForEnd()
        try await relay.start()
        for _ in 0..<2 { #expect(try await notify() == 200) }
        try await relay.wait(for: "all pushes have an outcome") { $0.unsettled == 0 }
        let tokens = simulator.record.pushes.map(\.deviceToken)
        #expect(tokens.sorted() == (1...3).map { String(repeating: "0\($0)", count: 32) })
        await relay.kill()
        await simulator.stop()
    }
}
