import Foundation
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct SocketLeakTests {
    /// The kernel reports no connection of this process to the server's port.
    @Test func noSocketStaysOpenAfterTheClientEnds() async throws {
        let server = try await ScriptedServer.start()
        try await withAPNSClient(configuration: .local(server)) { client in
            #expect(await client.sendAll(samplePush(), to: (0..<100).map { DeviceToken.sample($0) }).accepted == 100)
        }
        await server.wait { $0.openConnections == 0 }
        try await until { try sockets(to: server.port) == 0 }
        await server.stop()
    }

    /// Established TCP connections with this remote port.
    private func sockets(to port: Int) throws -> Int {
        let hexadecimal = String(format: ":%04X", port)
        return try ["/proc/self/net/tcp", "/proc/self/net/tcp6"].reduce(0) { count, path in
            guard FileManager.default.fileExists(atPath: path) else { return count }
            let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").dropFirst()
            return count
                + lines.count { line in
                    let columns = line.split(separator: " ")
                    return columns.count > 3 && columns[2].hasSuffix(hexadecimal) && columns[3] == "01"
                }
        }
    }
}
