import APNSTransport
import TestSupport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport
@testable import APNSSimulator

/// A client against servers that flood it or violate the protocol, over real sockets. `withServer` checks that no push,
/// lease, stream or connection remains.
struct HostileServerTests {
    struct Case: CustomStringConvertible, Sendable {
        let description: String
        /// The push that the server attacks.
        let certainty: Certainty
        /// Whether the attack ends its connection, rather than its stream.
        var endsConnection = true
        let bytes: @Sendable (_ stream: Int32) -> [UInt8]

        /// A flood: these frames, repeated more often than any budget allows.
        init(_ description: String, _ certainty: Certainty = .unknown, first: RawFrame? = nil, flood: RawFrame...) {
            self.description = description
            self.certainty = certainty
            self.bytes = { stream in
                let unit = flood.flatMap { $0.bytes(requestStreamID: stream) }
                let count = min(13_000, (12 << 20) / unit.count)
                return (first?.bytes(requestStreamID: stream) ?? []) + (0..<count).flatMap { _ in unit }
            }
        }

        init(_ description: String, endsConnection: Bool = true, frames: RawFrame...) {
            self.description = description
            self.certainty = .unknown
            self.endsConnection = endsConnection
            self.bytes = { stream in frames.flatMap { $0.bytes(requestStreamID: stream) } }
        }
    }

    private static let zeros = [UInt8](repeating: 0, count: 8)
    /// `:status: 200` and `:status: 103` (RFC 7541, appendix A and section 6.2.2).
    private static let status200 = RawFrame(type: 1, flags: 4, stream: .request, payload: [0x88])
    private static let status103 = RawFrame(
        type: 1,
        flags: 4,
        stream: .request,
        payload: [0x08, 3] + Array("103".utf8)
    )

    /// A header block that becomes larger than 64 KiB.
    private static let bomb: [UInt8] =
        [0x88, 0x40, 1, UInt8(ascii: "b"), 127, 0xB9, 0x16] + [UInt8](repeating: UInt8(ascii: "v"), count: 3000)
        + [UInt8](repeating: 0xBE, count: 100)

    static let cases: [Case] = [
        Case("PING", flood: RawFrame(type: 6, payload: Self.zeros)),
        Case(
            "SETTINGS",
            flood: RawFrame(type: 4, payload: [0, 3, 0, 0, 0, 1]),
            RawFrame(type: 4, payload: [0, 3, 0, 0, 3, 0])
        ),
        Case("WINDOW_UPDATE", flood: RawFrame(type: 8, payload: [0, 0, 0, 1])),
        Case("PRIORITY", flood: RawFrame(type: 2, stream: .request, payload: [0, 0, 0, 0, 1])),
        Case("an unknown type of 16 KiB", flood: RawFrame(type: 0xFA, payload: [UInt8](repeating: 0, count: 16384))),
        Case("1xx responses", flood: Self.status103),
        Case(
            "empty DATA after the status",
            .accepted,
            first: Self.status200,
            flood: RawFrame(type: 0, stream: .request)
        ),
        Case(
            "a body without end",
            .accepted,
            first: Self.status200,
            flood: RawFrame(type: 0, stream: .request, payload: [UInt8](repeating: 0x78, count: 1000))
        ),
        Case(
            "CONTINUATION",
            first: RawFrame(type: 1, stream: .request, payload: [0x88]),
            flood: RawFrame(type: 9, stream: .request)
        ),
        Case("a header bomb", frames: RawFrame(type: 1, flags: 5, stream: .request, payload: Self.bomb)),
        Case(
            "two statuses",
            endsConnection: false,
            frames: RawFrame(type: 1, flags: 5, stream: .request, payload: [0x88, 0x88])
        ),
        Case(
            "an impossible status",
            endsConnection: false,
            frames: RawFrame(type: 1, flags: 5, stream: .request, payload: [0x08, 3] + Array("000".utf8))
        ),
        Case(
            "GOAWAY with a rising id",  // the push is on stream 3
            frames: RawFrame(type: 7, payload: [0, 0, 0, 3] + Self.zeros.prefix(4)),
            RawFrame(type: 7, payload: [0, 0, 0, 5] + Self.zeros.prefix(4))
        ),
        Case("a window that overflows", frames: RawFrame(type: 8, payload: [0x7F, 0xFF, 0xFF, 0xFF])),
    ]

    @Test("An attack affects only the outcome of the push that it answers; the next push is accepted", arguments: cases)
    func attacks(_ attack: Case) async throws {
        let script: ScriptedServer.Script = { push in
            push.number == 2 ? [.bytes(attack.bytes(push.streamID))] : [.respond(200)]
        }
        try await withServer(script: script) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == attack.certainty && outcome.attempts == 1, "\(outcome)")
            let next = await client.deliver(samplePush(), to: DeviceToken.sample(1))
            #expect(next.certainty == .accepted, "\(next)")
            #expect(await client.status.pool.leased == 0)
            #expect(server.record.connections == (attack.endsConnection ? 2 : 1))
            await server.wait { $0.openConnections == 1 }
        }
    }

    @Test(
        "A frame of an unknown type changes nothing; a malformed frame costs at most the push that it answers",
        arguments: MalformedFrame.allCases
    )
    func malformedFrames(_ frame: MalformedFrame) async throws {
        let script: ScriptedServer.Script = { push in
            let response = ServerStep.respond(200)
            return push.number == 2 ? [.bytes(frame.bytes(requestStreamID: push.streamID)), response] : [response]
        }
        try await withServer(script: script) { client, server in
            #expect(await client.deliver(samplePush(), to: deviceToken).certainty == .accepted)
            let outcome = await client.deliver(samplePush(), to: deviceToken)
            #expect(outcome.certainty == (frame == .unknownType ? .accepted : .unknown), "\(outcome)")
            #expect(outcome.attempts == 1)
            let next = await client.deliver(samplePush(), to: DeviceToken.sample(1))
            #expect(next.certainty == .accepted, "\(next)")
            #expect(frame != .unknownType || server.record.connections == 1)
        }
    }
}
