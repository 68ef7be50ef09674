import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// The name server of the lab's client. Each name's addresses and delay can change at any time.
final class LabNameServer: Sendable {
    struct Entry: Sendable {
        /// The bytes of each address: 4 or 16.
        var addresses: [[UInt8]] = []
        /// How long each response takes; nil: no response.
        var delay: Duration? = .zero
    }

    private let entries: Entries
    private let channel: any Channel

    private init(_ entries: Entries, _ channel: any Channel) {
        self.entries = entries
        self.channel = channel
    }

    static func start() async throws -> LabNameServer {
        let entries = Entries()
        let channel = try await DatagramBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(LabNameHandler(entries))
                }
            }
            .bind(host: "127.0.0.1", port: 53).get()
        return LabNameServer(entries, channel)
    }

    /// - Parameter delay: how long each response takes; nil: no response.
    func set(_ name: String, _ addresses: [String], delay: Duration? = .zero) {
        let addresses = addresses.compactMap(Self.bytes(of:))
        self.entries.names.withLock { $0[name] = Entry(addresses: addresses, delay: delay) }
    }

    private static func bytes(of address: String) -> [UInt8]? {
        let isV6 = address.contains(":")
        var bytes = [UInt8](repeating: 0, count: isV6 ? 16 : 4)
        return inet_pton(isV6 ? AF_INET6 : AF_INET, address, &bytes) == 1 ? bytes : nil
    }

    func stop() async { try? await self.channel.close() }

    fileprivate final class Entries: Sendable {
        let names = Mutex<[String: Entry]>([:])
    }
}

/// Responds to questions for addresses (RFC 1035, RFC 3596).
private final class LabNameHandler: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>
    typealias OutboundOut = AddressedEnvelope<ByteBuffer>

    private let entries: LabNameServer.Entries

    init(_ entries: LabNameServer.Entries) {
        self.entries = entries
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let envelope = self.unwrapInboundIn(data)
        guard let question = Question(envelope.data) else { return }
        let entry = self.entries.names.withLock { $0[question.name] }
        guard let delay = (entry ?? LabNameServer.Entry()).delay else { return }
        let response = question.response(entry?.addresses)
        let (seconds, attoseconds) = delay.components
        let channel = context.channel
        context.eventLoop.scheduleTask(in: .seconds(seconds) + .nanoseconds(attoseconds / 1_000_000_000)) {
            channel.writeAndFlush(
                AddressedEnvelope(remoteAddress: envelope.remoteAddress, data: response),
                promise: nil
            )
        }
    }
}

private struct Question {
    private static let typeA: UInt16 = 1
    private static let typeAAAA: UInt16 = 28

    let name: String
    private let id: UInt16
    private let type: UInt16
    /// The bytes of the question, which a response repeats.
    private let bytes: ByteBuffer

    init?(_ original: ByteBuffer) {
        var message = original
        guard
            let (id, _, count, _, _, _) = message.readMultipleIntegers(
                as: (UInt16, UInt16, UInt16, UInt16, UInt16, UInt16).self
            ), count == 1
        else { return nil }
        let start = message.readerIndex
        var labels: [String] = []
        while let length = message.readInteger(as: UInt8.self), length > 0 {
            guard length < 64, let label = message.readString(length: Int(length)) else { return nil }
            labels.append(label.lowercased())
        }
        guard let (type, _) = message.readMultipleIntegers(as: (UInt16, UInt16).self),
            let bytes = original.getSlice(at: start, length: message.readerIndex - start)
        else { return nil }
        self.name = labels.joined(separator: ".")
        self.id = id
        self.type = type
        self.bytes = bytes
    }

    /// - Parameter addresses: the addresses of the name; nil: it does not exist.
    func response(_ addresses: [[UInt8]]?) -> ByteBuffer {
        let length = self.type == Self.typeA ? 4 : self.type == Self.typeAAAA ? 16 : 0
        let fitting = (addresses ?? []).filter { $0.count == length }
        var response = ByteBuffer()
        // A response with recursion; 3: the name does not exist.
        let flags: UInt16 = 0x8180 | (addresses == nil ? 3 : 0)
        response.writeMultipleIntegers(self.id, flags, UInt16(1), UInt16(fitting.count), UInt16(0), UInt16(0))
        response.writeImmutableBuffer(self.bytes)
        for address in fitting {
            // The name is a pointer to the question, the class is IN, and nothing may be cached.
            response.writeMultipleIntegers(UInt16(0xC00C), self.type, UInt16(1), UInt32(0), UInt16(address.count))
            response.writeBytes(address)
        }
        return response
    }
}
