import NIOCore
import NIOPosix
import Synchronization
import TestSupport

@testable import APNSSimulator
@testable import APNSTransport

/// A TLS client that records every frame as received. It has no HTTP/2 logic and sends only the frames of the test.
final class RawClient: Sendable {
    struct Frame: Sendable, Equatable {
        var type: UInt8
        var flags: UInt8
        var streamID: Int32
        var payload: [UInt8]

        var isSettings: Bool { self.type == 4 && self.flags & 1 == 0 }
        var code: UInt32 { self.payload.suffix(4).reduce(0) { $0 << 8 | UInt32($1) } }

        /// The settings of a SETTINGS frame.
        var settings: [UInt16: UInt32] {
            var settings: [UInt16: UInt32] = [:]
            for start in stride(from: 0, to: self.payload.count - 5, by: 6) {
                let identifier = UInt16(self.payload[start]) << 8 | UInt16(self.payload[start + 1])
                settings[identifier] = self.payload[start + 2..<start + 6].reduce(0) { $0 << 8 | UInt32($1) }
            }
            return settings
        }
    }

    enum End: Sendable, Equatable {
        /// close_notify.
        case closeNotify
        /// TCP's FIN without close_notify.
        case fin
        /// TCP's reset.
        case rst
        /// A TLS error, or a certificate that is not trusted.
        case tls(WireError.Code, String)
    }

    struct State: Sendable {
        var isOpen = false
        var plaintext: [UInt8] = []
        var frames: [Frame] = []
        var received = 0
        var end: End?
    }

    /// The received data. The channel's handler writes it and tests read it.
    final class Sink: Sendable {
        private let state = Mutex(State())

        func withLock<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
            self.state.withLock { state in body(&state) }
        }
    }

    let state: Sink
    private let channel: any Channel
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private init(channel: any Channel, state: Sink) {
        self.channel = channel
        self.state = state
    }

    /// Connects. The handshake continues in the background. Throws if the port is closed.
    ///
    /// - Parameter isMute: Whether the client sends nothing, not even a handshake.
    static func connect(
        _ simulator: Simulator,
        maximumVersion: TLSConfiguration.Version = .tls13,
        isMute: Bool = false,
        certificate: SimulatedCertificate? = nil
    ) async throws -> RawClient {
        var tls = TLSConfiguration()
        tls.caPEM = simulator.certificateAuthorityPEM
        tls.trustsSystemRoots = false
        tls.maximumVersion = maximumVersion
        tls.certificateChainPEM = certificate?.certificatePEM
        tls.privateKeyPEM = certificate?.privateKeyPEM
        let context = try TLSContext(.client, configuration: tls)
        let sink = Sink()
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(ChannelOptions.allowRemoteHalfClosure, value: true)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let session = try TLSSession(context: context, peerName: "localhost")
                    try channel.pipeline.syncOperations.addHandler(RawHandler(session, sink, isMute: isMute))
                }
            }
            .connect(host: "127.0.0.1", port: simulator.port).get()
        return RawClient(channel: channel, state: sink)
    }

    /// Preface and SETTINGS.
    func start(settings: [UInt8] = []) {
        self.send(Self.preface + RawFrame(type: 4, payload: settings).bytes(requestStreamID: 0))
    }

    func send(_ bytes: [UInt8]) {
        self.channel.triggerUserOutboundEvent(bytes, promise: nil)
    }

    func close() async { try? await self.channel.close().get() }

    /// HEADERS and DATA of a push; without a body, HEADERS alone and no END_STREAM.
    func push(
        _ streamID: Int32,
        jwt: String,
        token: String = Sample.deviceToken,
        id: String? = nil,
        body: String? = Sample.payload
    ) {
        var fields = [
            (":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", "/3/device/\(token)"),
            ("apns-topic", Sample.topic), ("apns-push-type", "alert"), ("authorization", "bearer \(jwt)"),
        ]
        if let id { fields.append(("apns-id", id)) }
        var bytes = RawFrame(type: 1, flags: 4, stream: .request, payload: Self.block(fields))
            .bytes(requestStreamID: streamID)
        if let body {
            bytes += RawFrame(type: 0, flags: 1, stream: .request, payload: Array(body.utf8))
                .bytes(requestStreamID: streamID)
        }
        self.send(bytes)
    }

    /// Literal fields without indexing and without Huffman's code (RFC 7541, section 6.2.2).
    private static func block(_ fields: [(String, String)]) -> [UInt8] {
        func text(_ text: String) -> [UInt8] {
            var count = text.utf8.count
            guard count >= 127 else { return [UInt8(count)] + Array(text.utf8) }
            var prefix: [UInt8] = [127]
            count -= 127
            while count >= 128 {
                prefix.append(UInt8(count % 128 + 128))
                count /= 128
            }
            return prefix + [UInt8(count)] + Array(text.utf8)
        }
        return fields.flatMap { [0] + text($0.0) + text($0.1) }
    }

    var frames: [Frame] { self.state.withLock { $0.frames } }
    var end: End? { self.state.withLock { $0.end } }

    /// Waits until the received data meets a condition, and returns whether it did.
    func wait(_ isMet: (State) -> Bool) async throws -> Bool {
        await eventually { self.state.withLock { isMet($0) } }
    }

    func waitForEnd() async throws -> End? {
        _ = try await self.wait { $0.end != nil }
        return self.end
    }

    /// Waits for a frame that meets the condition.
    func frame(_ isMet: (Frame) -> Bool) async throws -> Frame? {
        _ = try await self.wait { $0.frames.contains(where: isMet) || $0.end != nil }
        return self.frames.first(where: isMet)
    }

    /// The types of all frames on a stream, in order.
    func types(on streamID: Int32) -> [UInt8] {
        self.frames.filter { $0.streamID == streamID }.map(\.type)
    }
}

extension RawClient.Sink {
    fileprivate func received(_ bytes: ArraySlice<UInt8>) {
        self.withLock { state in
            state.plaintext += bytes
            state.received += bytes.count
            var position = 0
            while state.plaintext.count - position >= 9 {
                let head = state.plaintext[position..<position + 9].map(Int.init)
                let length = head[0] << 16 | head[1] << 8 | head[2]
                guard state.plaintext.count - position >= 9 + length else { break }
                let id = (head[5] & 0x7F) << 24 | head[6] << 16 | head[7] << 8 | head[8]
                let payload = Array(state.plaintext[position + 9..<position + 9 + length])
                state.frames.append(
                    RawClient.Frame(type: UInt8(head[3]), flags: UInt8(head[4]), streamID: Int32(id), payload: payload)
                )
                position += 9 + length
            }
            state.plaintext.removeFirst(position)
        }
    }

    fileprivate func opened() { self.withLock { $0.isOpen = true } }
    fileprivate func ended(_ end: RawClient.End) { self.withLock { if $0.end == nil { $0.end = end } } }
}

private final class RawHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let tls: TLSSession
    private let client: RawClient.Sink
    private let isMute: Bool
    private var isOpen = false
    private var waiting: [[UInt8]] = []

    init(_ tls: TLSSession, _ client: RawClient.Sink, isMute: Bool) {
        self.tls = tls
        self.client = client
        self.isMute = isMute
    }

    func channelActive(context: ChannelHandlerContext) { self.step(context) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.unwrapInboundIn(data).withUnsafeReadableBytes { self.tls.feed($0) }
        self.step(context)
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        if let bytes = event as? [UInt8] { self.waiting.append(bytes) }
        self.step(context)
        promise?.succeed()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard event as? ChannelEvent == .inputClosed else { return }
        self.client.ended(.fin)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { self.client.ended(.fin) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.client.ended(.rst)
        context.close(promise: nil)
    }

    private func step(_ context: ChannelHandlerContext) {
        if self.isMute { return }
        if !self.isOpen {
            switch self.tls.handshake() {
            case .incomplete: break
            case .failed(let error): self.client.ended(.tls(error.code, error.message))
            case .complete:
                self.isOpen = true
                self.client.opened()
            }
        }
        if self.isOpen {
            for bytes in self.waiting { _ = bytes.withUnsafeBytes { self.tls.write($0) } }
            self.waiting = []
            self.read()
        }
        guard self.tls.outputCount > 0 else { return }
        var buffer = context.channel.allocator.buffer(capacity: self.tls.outputCount)
        self.tls.takeOutput(into: &buffer)
        context.writeAndFlush(self.wrapOutboundOut(buffer), promise: nil)
    }

    private func read() {
        var piece = [UInt8](repeating: 0, count: 16_384)
        while true {
            switch piece.withUnsafeMutableBytes({ self.tls.read(into: $0) }) {
            case .bytes(let count): self.client.received(piece[..<count])
            case .needsMore: return
            case .closeNotify: return self.client.ended(.closeNotify)
            case .failed(let error): return self.client.ended(.tls(error.code, error.message))
            }
        }
    }
}
