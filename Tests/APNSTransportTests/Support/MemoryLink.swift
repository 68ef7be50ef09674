import Foundation
import NIOCore
import NIOEmbedded
import NIOPosix

@testable import APNSTransport

/// Counts what the client's channel writes.
final class WriteCounter: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private(set) var writes = 0
    private(set) var bytes = 0
    /// Called after each write.
    var onWrite: () -> Void = {}

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        self.writes += 1
        self.bytes += self.unwrapOutboundIn(data).readableBytes
        context.write(data, promise: promise)
        self.onWrite()
    }
}

/// A delegate that records its calls and runs a scripted action inside each. Confined to one loop.
final class ScriptedDelegate: ConnectionDelegate {
    enum Event: Equatable {
        case ready
        case limit(Int)
        case goingAway(WireError.Code)
        case finished([Ended])
        case closed(WireError.Code)
    }
    var events: [Event] = []
    var onReady: () -> Void = {}
    var onFinished: ([StreamResult]) -> Void = { _ in }
    var onClosed: () -> Void = {}
    var onGoingAway: (WireError) -> Void = { _ in }
    var onClosedError: (WireError) -> Void = { _ in }

    var tags: [UInt64] {
        self.events.flatMap { event -> [UInt64] in
            guard case .finished(let ended) = event else { return [] }
            return ended.map(\.tag)
        }
    }

    func connection(_ id: Int, isReadyWithMaxConcurrentStreams limit: Int) {
        self.events.append(.ready)
        self.onReady()
    }
    func connection(_ id: Int, streamLimitChangedTo limit: Int) { self.events.append(.limit(limit)) }
    func connection(_ id: Int, isGoingAway error: WireError) {
        self.events.append(.goingAway(error.code))
        self.onGoingAway(error)
    }
    func connection(_ id: Int, finished results: [StreamResult]) {
        self.events.append(.finished(results.map { Ended($0.tag.rawValue, $0.ending, $0.cause) }))
        self.onFinished(results)
    }
    func connection(_ id: Int, isClosed error: WireError) {
        self.events.append(.closed(error.code))
        self.onClosedError(error)
        self.onClosed()
    }
}

/// A client connection over an in-memory channel, against a TLS session and hand-written frames.
final class MemoryLink {
    let channel: EmbeddedChannel
    let connection: Connection
    let delegate = ScriptedDelegate()
    let server: TLSSession
    let counter = WriteCounter()
    var received: [Frame] = []

    var writes: Int { self.counter.writes }
    var writtenBytes: Int { self.counter.bytes }
    var loop: EmbeddedEventLoop { self.channel.embeddedEventLoop }

    convenience init(configure: (inout Connection.Configuration) -> Void = { _ in }) throws {
        try self.init(configureServer: { _ in }, configure: configure)
    }

    init(
        configureServer: (inout TLSConfiguration) -> Void,
        configureClient: (inout TLSConfiguration, inout CertificateAuthority) throws -> Void = { _, _ in },
        configure: (inout Connection.Configuration) -> Void = { _ in }
    ) throws {
        var authority = try CertificateAuthority()
        let identity = try authority.issue(names: ["localhost"])
        var serverTLS = TLSConfiguration()
        serverTLS.certificateChainPEM = identity.certificateChainPEM
        serverTLS.privateKeyPEM = identity.privateKeyPEM
        configureServer(&serverTLS)
        self.server = try TLSSession(context: TLSContext(.server, configuration: serverTLS), peerName: "")
        var clientTLS = TLSConfiguration()
        clientTLS.caPEM = authority.certificatePEM
        clientTLS.trustsSystemRoots = false
        try configureClient(&clientTLS, &authority)
        var configuration = Connection.Configuration(
            host: "localhost",
            port: 443,
            tls: try TLSContext(.client, configuration: clientTLS),
            variableNames: [":path", "apns-id"]
        )
        configure(&configuration)
        self.channel = EmbeddedChannel()
        self.connection = Connection(
            id: 1,
            configuration: configuration,
            loop: self.channel.embeddedEventLoop,
            delegate: self.delegate
        )
        self.channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 443), promise: nil)
        try self.channel.pipeline.syncOperations.addHandler(self.counter)
        try self.connection.adopt(self.channel)
    }

    /// Completes the TLS handshake and exchanges SETTINGS.
    func shakeHands(limit: UInt32 = 1000) throws {
        for _ in 0..<4 {
            try self.exchange()
            if case .complete = self.server.handshake() { break }
        }
        try self.send(.settings(maxConcurrentStreams: limit), .settingsAck)
        try self.exchange()
        self.received.removeAll()
    }

    /// Carries bytes both ways until neither side has more to send.
    func exchange() throws {
        var moved = true
        while moved {
            moved = false
            while let bytes = try self.channel.readOutbound(as: ByteBuffer.self) {
                bytes.withUnsafeReadableBytes { self.server.feed($0) }
                moved = true
            }
            _ = self.server.handshake()
            self.readFrames()
            if self.server.outputCount > 0 {
                var bytes = ByteBuffer()
                self.server.takeOutput(into: &bytes)
                if self.channel.isActive { try self.channel.writeInbound(bytes) }
                moved = true
            }
        }
    }

    /// Makes the server end TLS with the alert bad_record_mac (20), as for a damaged record of the client.
    func sendAlert() throws {
        self.server.feed(ByteBuffer(bytes: [23, 3, 3, 0, 20] + [UInt8](repeating: 0, count: 20)))
        try self.exchange()
    }

    func send(_ frames: Frame..., closeNotify: Bool = false) throws {
        frames.flatMap(\.bytes).withUnsafeBytes { _ = self.server.write($0) }
        if closeNotify { self.server.closeNotify() }
        try self.exchange()
    }

    /// Sends all frames so that the client's channel reads them at once.
    func sendTogether(_ frames: [Frame]) throws {
        frames.flatMap(\.bytes).withUnsafeBytes { _ = self.server.write($0) }
        try self.exchange()
    }

    private func readFrames() {
        var bytes: [UInt8] = []
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 65536, alignment: 16)
        defer { piece.deallocate() }
        while case .bytes(let count) = self.server.read(into: piece) { bytes += piece[..<count] }
        self.received += Frame.parse(bytes)
    }

    func submit(_ tags: ClosedRange<UInt64>, body: String = "{}", within time: TimeAmount = .seconds(30)) {
        self.connection.submit(
            tags.map {
                StreamSubmission(request: .test(body: body), tag: StreamTag($0), deadline: self.loop.now + time)
            }
        )
    }

    func finish() {
        self.connection.close()
        self.loop.run()
        _ = try? self.channel.finish(acceptAlreadyClosed: true)
    }
}
