import APNSModel
import APNSPool
import APNSSimulator
import NIOHTTP1
import Synchronization

@testable import APNSControl
@testable import APNSPoolTestSupport

/// A simulator with its control API, without a socket for the API.
struct ControlClient {
    struct Response {
        var status: Int
        var headers: HTTPHeaders
        var bytes: [UInt8]
        /// The body; `null` if it is not JSON.
        var json: JSONValue { JSONValue(json: self.bytes) ?? .null }
        var text: String { String(decoding: self.bytes, as: UTF8.self) }

        /// The value at a path of keys and indices.
        subscript(_ path: String...) -> JSONValue? {
            path.reduce(Optional(self.json)) { value, key in
                switch value {
                case .object: value?.members?[key]
                case .array(let values): Int(key).flatMap { values.indices.contains($0) ? values[$0] : nil }
                default: nil
                }
            }
        }

        /// The integers under a key of each element of a list.
        func integers(_ list: String, _ key: String) -> [Int64] {
            guard case .array(let values)? = self[list] else { return [] }
            return values.compactMap {
                guard case .integer(let number)? = $0.members?[key] else { return nil }
                return number
            }
        }
    }

    let simulator: Simulator
    let client: APNSClient
    let api: ControlAPI

    /// Runs `body` with a simulator, its control API, and a client that sends to it.
    static func with(
        token: String? = nil,
        keep: Int? = nil,
        credential: Simulator.Credential = .anyProviderToken,
        _ body: (ControlClient) async throws -> Void
    ) async throws {
        var configuration = Simulator.Configuration()
        configuration.keep = keep
        configuration.credential = credential
        let simulator = try await Simulator.start(configuration)
        let key = SimulatedKey()
        simulator.addKey(key)
        let api = ControlAPI(
            simulator: simulator,
            endpoint: "https://localhost:\(simulator.port)",
            commands: [("With curl", "curl")],
            caFile: "/sim/ca.pem",
            curl: "curl --http2",
            hosts: ["localhost", "[::1]"],
            token: token,
            version: "1"
        )
        var client = APNSClientConfiguration(
            authentication: .token(privateKeyPEM: key.p8, keyID: key.keyID, teamID: key.teamID),
            environment: .custom(host: "localhost", port: simulator.port)
        )
        client.trust.caPEM = simulator.certificateAuthorityPEM
        client.usePatientLimits()
        do {
            try await withAPNSClient(configuration: client) { client in
                try await body(ControlClient(simulator: simulator, client: client, api: api))
            }
            await simulator.stop()
        } catch {
            await simulator.stop()
            throw error
        }
    }

    func call(
        _ method: HTTPMethod,
        _ uri: String,
        _ body: String = "",
        headers: HTTPHeaders = ["host": "localhost:8026", "x-apns-simulator": "test"]
    ) async throws -> Response {
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: uri, headers: headers)
        let response = await self.api.respond(to: head, body: Array(body.utf8))
        let bytes: [UInt8]
        switch response.body {
        case .bytes(let complete): bytes = complete
        case .stream(let write):
            let written = Mutex<[UInt8]>([])
            try await write { part in written.withLock { $0 += part } }
            bytes = written.withLock { $0 }
        }
        return Response(status: Int(response.status.code), headers: response.headers, bytes: bytes)
    }

    func get(_ uri: String) async throws -> Response { try await self.call(.GET, uri) }

    /// Sends an alert.
    @discardableResult
    func push(
        _ number: Int,
        title: String = "Hey",
        collapseID: String? = nil
    ) async throws -> PushOutcome {
        var push = PushNotification(topic: "com.example.app", alert: Alert(title: title, body: "There"))
        if let collapseID { push = push.collapseID(collapseID) }
        return await self.client.deliver(push, to: try DeviceToken(APNSControlTests.token(number)))
    }
}

/// A device token of 64 digits.
func token(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 64 - digits.count) + digits
}
