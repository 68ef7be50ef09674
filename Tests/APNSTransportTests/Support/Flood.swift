@testable import APNSTransport

/// Frames that a hostile server repeats without end. Streams 1, 3 and 5 exist: 1 waits for its response, 3 is closed,
/// and 5 has received its final HEADERS.
struct Flood: CustomStringConvertible, Sendable {
    let description: String
    /// Sent once, before the others.
    var first: [UInt8] = []
    /// The frames that are repeated.
    let unit: [UInt8]
    /// How many frames `unit` contains.
    let count: Int
    /// Whether only the budget ends it. Otherwise nghttp2 ends the session earlier.
    let isLegal: Bool

    init(_ description: String, first: Frame? = nil, _ frames: Frame..., isLegal: Bool = true) {
        self.description = description
        self.first = first?.bytes ?? []
        self.unit = frames.flatMap(\.bytes)
        self.count = frames.count
        self.isLegal = isLegal
    }

    static let zeros = [UInt8](repeating: 0, count: 8)
    private static let status103 = Frame.block([(":status", "103")])

    /// A field of 3,000 bytes that enters the dynamic table.
    private static let largeField: [UInt8] =
        [0x40, 1, UInt8(ascii: "b"), 127, 0xB9, 0x16] + [UInt8](repeating: UInt8(ascii: "v"), count: 3000)

    static let onAConnection: [Flood] = [
        Flood("PING", .ping()),
        Flood("acknowledgements of PINGs that nobody sent", Frame(.ping, flags: Frame.ack, Self.zeros)),
        Flood("empty SETTINGS", .settings(), isLegal: false),
        Flood("SETTINGS", .settings([(3, 1000), (4, 65_535)])),
        Flood(
            "SETTINGS that change the limits",
            .settings([(3, 1), (4, 1), (1, 0)]),
            .settings([(3, 1000), (4, 65_535), (1, 4096)])
        ),
        Flood("acknowledgements of SETTINGS that nobody sent", .settingsAck, isLegal: false),
        Flood("WINDOW_UPDATE of 1", Frame(.windowUpdate, bigEndian(1))),
        Flood("an unknown type", Frame(type: 0xFA, flags: 0xFF, streamID: 0, payload: [])),
        Flood("ALTSVC", Frame(type: 0xA, flags: 0, streamID: 0, payload: Self.zeros)),
        Flood("ORIGIN", Frame(type: 0xC, flags: 0, streamID: 0, payload: [])),
        Flood(
            "an unknown type of 16 KiB",
            Frame(type: 0xFB, flags: 0, streamID: 1, payload: [UInt8](repeating: 0, count: 16384))
        ),
    ]

    static let onStreams: [Flood] = [
        Flood("WINDOW_UPDATE of 1 on an open stream", Frame(.windowUpdate, stream: 1, bigEndian(1))),
        Flood("WINDOW_UPDATE on a closed stream", Frame(.windowUpdate, stream: 3, bigEndian(1))),
        Flood("PRIORITY of an open stream", Frame(.priority, stream: 1, [0, 0, 0, 0, 1])),
        Flood("PRIORITY of a closed stream", Frame(.priority, stream: 3, [0, 0, 0, 1, 1])),
        Flood("RST_STREAM on a closed stream", .reset(3, .cancel)),
        Flood("DATA on a closed stream", .data(3, "x", end: false)),
        Flood("empty DATA", .data(5, "", end: false)),
        Flood("DATA of a byte", .data(5, "x", end: false)),
        Flood(
            "DATA with maximum padding",
            Frame(.data, flags: 8, stream: 5, [255] + [UInt8](repeating: 0, count: 255))
        ),
        Flood("a body without end", .data(5, String(repeating: "x", count: 16384), end: false)),
    ]

    static let ofHeaders: [Flood] = [
        Flood("1xx responses", .headers(1, status: 103)),
        Flood("HEADERS on a closed stream", .headers(3, status: 200)),
        Flood(
            "HEADERS with maximum padding",
            Frame(.headers, flags: 0xC, stream: 1, [255] + Self.status103 + [UInt8](repeating: 0, count: 255))
        ),
        Flood(
            "large fields from the dynamic table",
            first: Frame(.headers, flags: 4, stream: 1, Self.status103 + Self.largeField),
            Frame(.headers, flags: 4, stream: 1, Self.status103 + [UInt8](repeating: 0xBE, count: 20))
        ),
        Flood(
            "changes of the dynamic table's size",
            Frame(
                .headers,
                flags: 4,
                stream: 1,
                (0..<1000).flatMap { _ in [0x20, 0x3F, 0xE1, 0x1F] } + Self.status103
            )
        ),
        Flood(
            "CONTINUATION of a byte",
            first: Frame(.headers, stream: 1, Self.status103 + [0, 1, UInt8(ascii: "x"), 127, 0xFF, 0xFF, 1]),
            Frame(.continuation, stream: 1, [UInt8(ascii: "y")]),
            isLegal: false
        ),
        Flood(
            "empty CONTINUATION",
            first: .headers(1, status: 103, endHeaders: false),
            Frame(.continuation, stream: 1),
            isLegal: false
        ),
        Flood("GOAWAY", .goAway(5, debug: String(repeating: "x", count: 4000))),
        Flood(
            "PUSH_PROMISE",
            Frame(.pushPromise, flags: 4, stream: 1, [0, 0, 0, 2, 0x82, 0x87, 0x84]),
            isLegal: false
        ),
    ]
}
