import NIOCore
import NIOPosix
import Testing

@testable import APNSTransport

struct LoopbackTests {
    @Test func requestsReceiveResponsesOverTLS() async throws {
        let server = try await EchoServer.start()
        let probe = ConnectionProbe(server: server)
        let ready = await probe.open()
        #expect(ready == .ready(maxConcurrentStreams: 100))
        let results = await probe.send((0..<50).map { "payload \($0)" })
        #expect(results.count == 50)
        #expect(results.allSatisfy { $0.ending == .response && $0.status == 200 })
        #expect(Set(results.map { String(decoding: $0.body, as: UTF8.self) }).count == 50)
        await probe.close()
        await server.stop()
    }
}
