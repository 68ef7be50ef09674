import Foundation
import HTTPTypes
import Hummingbird
import Logging
import PushQueueConformance
import Synchronization
import Testing

/// An HTTP server on 127.0.0.1 that receives webhooks, and responds as a test wants.
final class WebhookReceiver: Sendable {
    static let secret = Array("a secret of at least 24 bytes".utf8)

    struct Delivery: Sendable {
        var id: String
        var timestamp: String
        var signature: String
        var contentType: String
        var body: [UInt8]
        var time = ContinuousClock.now
        /// The cursors of the outcomes.
        var cursors: [Int] = []
        var pushIDs: [String] = []
    }

    enum Reply: Sendable {
        case status(Int, [String: String] = [:])
        /// No response.
        case hang
        /// A status, and a body that never ends: 1 KiB at a time if fast, or else one byte and nothing more.
        case endless(Int, fast: Bool)
    }

    let port: Int
    private struct State {
        var deliveries: [Delivery] = []
        var script: @Sendable (Int, Delivery) -> Reply
    }

    private let state: Mutex<State>

    private init(port: Int, script: @escaping @Sendable (Int, Delivery) -> Reply) {
        self.port = port
        self.state = Mutex(State(script: script))
    }

    var url: String { "http://127.0.0.1:\(self.port)/hook" }
    /// All requests, in the order of their arrival.
    var deliveries: [Delivery] { self.state.withLock { $0.deliveries } }

    /// Responds in another way from now on.
    func respond(_ script: @escaping @Sendable (Int, Delivery) -> Reply) {
        self.state.withLock { $0.script = script }
    }

    /// Waits until as many requests have arrived.
    func waitFor(_ count: Int, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let isThere = try await eventually { self.deliveries.count >= count }
        try #require(isThere, "\(self.deliveries.count) of \(count) requests came", sourceLocation: sourceLocation)
    }

    /// Runs a receiver.
    ///
    /// - Parameters:
    ///   - script: the response to the request with this number, from 0.
    ///   - body: uses the receiver.
    static func run(
        _ script: @escaping @Sendable (Int, Delivery) -> Reply = { _, _ in .status(204) },
        _ body: (WebhookReceiver) async throws -> Void
    ) async throws {
        let (ports, portContinuation) = AsyncStream<Int>.makeStream()
        let holder = Holder()
        let router = Router()
        router.post("/hook") { request, _ in
            let buffer = try await request.body.collect(upTo: 64 << 20)
            guard let receiver = holder.receiver.withLock({ $0 }) else { return Response(status: .internalServerError) }
            return try await receiver.receive(request, Array(buffer.readableBytesView))
        }
        router.get("/elsewhere") { _, _ in Response(status: .ok) }
        router.post("/elsewhere") { _, _ in Response(status: .ok) }
        var logger = Logger(label: "receiver")
        logger.logLevel = .critical
        let application = Application(
            router: router,
            configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { portContinuation.yield($0.localAddress?.port ?? 0) },
            logger: logger
        )
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await application.run() }
            let port = try #require(await ports.first { _ in true })
            let receiver = WebhookReceiver(port: port, script: script)
            holder.receiver.withLock { $0 = receiver }
            try await body(receiver)
            group.cancelAll()
        }
    }

    private final class Holder: Sendable {
        let receiver = Mutex<WebhookReceiver?>(nil)
    }

    private func receive(_ request: Request, _ body: [UInt8]) async throws -> Response {
        struct Body: Decodable {
            struct Outcome: Decodable {
                var id: String
                var cursor: String
            }
            var outcomes: [Outcome]
        }
        func header(_ name: String) -> String {
            request.headers.first { $0.name.canonicalName == name }?.value ?? ""
        }
        var delivery = Delivery(
            id: header("webhook-id"),
            timestamp: header("webhook-timestamp"),
            signature: header("webhook-signature"),
            contentType: header("content-type"),
            body: body
        )
        let decoded = try? JSONDecoder().decode(Body.self, from: Data(body))
        delivery.cursors =
            decoded?.outcomes.compactMap { $0.cursor.split(separator: "-").first.flatMap { Int($0) } } ?? []
        delivery.pushIDs = decoded?.outcomes.map(\.id) ?? []
        let reply = self.state.withLock { [delivery] state in
            state.deliveries.append(delivery)
            return state.script(state.deliveries.count - 1, delivery)
        }
        switch reply {
        case .status(let status, let headers):
            var response = Response(status: .init(code: status))
            for (name, value) in headers {
                if let name = HTTPField.Name(name) { response.headers[name] = value }
            }
            return response
        case .hang:
            try await Task.sleep(for: .seconds(3_600))
            return Response(status: .ok)
        case .endless(let status, let fast):
            return Response(
                status: .init(code: status),
                body: .init { writer in
                    try await writer.write(ByteBuffer(bytes: [UInt8](repeating: 120, count: fast ? 1_024 : 1)))
                    while fast { try await writer.write(ByteBuffer(bytes: [UInt8](repeating: 120, count: 1_024))) }
                    try await Task.sleep(for: .seconds(3_600))
                }
            )
        }
    }
}

/// Whether a condition is met in time.
func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
    do {
        try await Patience.wait(for: "the condition", condition)
        return true
    } catch is Patience.Exceeded {
        return false
    }
}
