import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// Serves the control API and its page over HTTP/1.1.
package struct ControlServer: Sendable {
    /// The largest body of a request, in bytes.
    static let bodyLimit = 1 << 20

    private typealias Response = HTTPPart<HTTPResponseHead, ByteBuffer>
    private typealias Client = NIOAsyncChannel<HTTPServerRequestPart, Response>

    private let server: NIOAsyncChannel<Client, Never>
    private let api: ControlAPI

    /// The port on which it listens.
    package var port: Int { self.server.channel.localAddress?.port ?? 0 }

    /// Binds the port. `run()` then accepts connections.
    ///
    /// - Parameters:
    ///   - address: An IP address.
    ///   - port: The port; 0 for any free one.
    /// - Throws: An error of the system if it cannot listen there.
    package init(address: String, port: Int, api: ControlAPI) async throws {
        self.api = api
        self.server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .bind(host: address, port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline(withErrorHandling: true)
                    try channel.pipeline.syncOperations.addHandler(ResponsePartHandler())
                    return try Client(wrappingChannelSynchronously: channel)
                }
            }
    }

    /// Serves until the task is cancelled. Then ends all connections.
    package func run() async throws {
        try await self.server.executeThenClose { clients in
            try await withThrowingDiscardingTaskGroup { group in
                for try await client in clients {
                    // An error of one client, such as a lost connection or a malformed request, ends only its task.
                    group.addTask { try? await self.serve(client) }
                }
                group.cancelAll()
            }
        }
    }

    private func serve(_ client: Client) async throws {
        // A response that waits for pushes ends when its client leaves.
        let responding = Mutex<Task<ControlResponse, Never>?>(nil)
        client.channel.closeFuture.whenComplete { _ in responding.withLock { $0 }?.cancel() }
        try await client.executeThenClose { parts, responses in
            var head: HTTPRequestHead?
            var body: [UInt8] = []
            for try await part in parts {
                switch part {
                case .head(let received):
                    head = received
                    body = []
                case .body(let bytes):
                    guard let received = head else { continue }
                    guard body.count + bytes.readableBytes <= Self.bodyLimit else {
                        let error = ControlError(
                            .payloadTooLarge,
                            "too-large",
                            "The body has more than \(Self.bodyLimit) bytes."
                        )
                        try await Self.write(error.response, to: responses, received, keepsOpen: false)
                        return
                    }
                    body.append(contentsOf: bytes.readableBytesView)
                case .end:
                    guard let received = head else { continue }
                    head = nil
                    let task = Task { [body] in await self.api.respond(to: received, body: body) }
                    responding.withLock { $0 = task }
                    let response = await withTaskCancellationHandler {
                        await task.value
                    } onCancel: {
                        task.cancel()
                    }
                    var keepsOpen = received.isKeepAlive
                    if case .stream = response.body {
                        // Without a length, only chunks or the end of the connection can end a body. HTTP/1.0 has no
                        // chunks, and SwiftNIO would also write the last one after a response to HEAD.
                        keepsOpen = keepsOpen && received.method != .HEAD && received.version == .http1_1
                    }
                    try await Self.write(response, to: responses, received, keepsOpen: keepsOpen)
                    if !keepsOpen { return }
                }
            }
        }
    }

    private static func write(
        _ response: ControlResponse,
        to responses: NIOAsyncChannelOutboundWriter<Response>,
        _ request: HTTPRequestHead,
        keepsOpen: Bool
    ) async throws {
        var head = HTTPResponseHead(version: request.version, status: response.status, headers: response.headers)
        if !keepsOpen { head.headers.replaceOrAdd(name: "connection", value: "close") }
        let hasBody = request.method != .HEAD
        switch response.body {
        case .bytes(let bytes):
            if response.status != .noContent {
                head.headers.replaceOrAdd(name: "content-length", value: "\(bytes.count)")
            }
            try await responses.write(.head(head))
            if hasBody, !bytes.isEmpty { try await responses.write(.body(ByteBuffer(bytes: bytes))) }
        case .stream(let write):
            try await responses.write(.head(head))
            if hasBody { try await write { try await responses.write(.body(ByteBuffer(bytes: $0))) } }
        }
        try await responses.write(.end(nil))
    }
}

/// Turns the parts that the server writes into those that SwiftNIO's encoder takes.
private final class ResponsePartHandler: ChannelOutboundHandler {
    typealias OutboundIn = HTTPPart<HTTPResponseHead, ByteBuffer>
    typealias OutboundOut = HTTPServerResponsePart

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch self.unwrapOutboundIn(data) {
        case .head(let head): context.write(self.wrapOutboundOut(.head(head)), promise: promise)
        case .body(let bytes): context.write(self.wrapOutboundOut(.body(.byteBuffer(bytes))), promise: promise)
        case .end(let trailers): context.write(self.wrapOutboundOut(.end(trailers)), promise: promise)
        }
    }
}
