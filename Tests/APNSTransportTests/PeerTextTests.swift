import NIOCore
import Testing

@testable import APNSTransport

/// Text from a peer that reaches logs and terminals.
struct PeerTextTests {
    @Test(
        "Control characters, line ends and direction marks are escaped",
        arguments: [
            ("BadDeviceToken", "BadDeviceToken"), (#"{"reason":"Shutdown"}"#, #"{"reason":"Shutdown"}"#),
            ("Zürich 東京", "Zürich 東京"), ("", ""), ("\u{1B}[2J", #"\u{1b}[2J"#),
            ("a\r\nb\t\u{0}", #"a\u{d}\u{a}b\u{9}\u{0}"#),
            ("\u{9B}31m\u{7F}", #"\u{9b}31m\u{7f}"#), ("a\u{202E}b\u{2066}\u{200F}", #"a\u{202e}b\u{2066}\u{200f}"#),
            ("a\u{2028}b\u{2029}", #"a\u{2028}b\u{2029}"#),
        ]
    )
    func escapes(_ text: String, _ expected: String) {
        #expect(PeerText.printable(text) == expected)
        #expect(PeerText.printable(Array(text.utf8)) == expected)
    }

    @Test("Text is cut to 256 bytes, never inside a character or an escape")
    func cuts() {
        #expect(PeerText.printable(String(repeating: "x", count: 256)).utf8.count == 256)
        #expect(PeerText.printable(String(repeating: "x", count: 5000)) == String(repeating: "x", count: 256) + "…")
        #expect(PeerText.printable(String(repeating: "東", count: 100)) == String(repeating: "東", count: 85) + "…")
        #expect(PeerText.printable([UInt8](repeating: 0x1B, count: 4096)).utf8.count <= 256 + 3)
        #expect(PeerText.printable([UInt8](repeating: 0xFF, count: 4096)).utf8.count <= 256 + 3)
    }

    @Test("The debug data of a GOAWAY is escaped and cut")
    func goAway() throws {
        let link = try MemoryLink()
        var messages: [String] = []
        link.delegate.onGoingAway = { messages.append($0.message) }
        try link.shakeHands()
        try link.send(
            .goAway(0, debug: "\u{1B}]0;x\u{7}\n2026-01-01 ERROR forged " + String(repeating: "y", count: 2000))
        )
        let message = try #require(messages.first)
        #expect(message.contains(#"\u{1b}]0;x\u{7}\u{a}2026-01-01 ERROR forged yyy"#))
        #expect(!message.unicodeScalars.contains { $0.properties.generalCategory == .control })
        #expect(message.utf8.count < 400)
        link.finish()
    }

    @Test("nghttp2's description of a malformed message is escaped")
    func brokenMessage() throws {
        let link = try MemoryLink()
        var message = ""
        link.delegate.onClosedError = { message = $0.message }
        try link.shakeHands()
        link.submit(1...1)
        try link.exchange()
        try link.send(
            .headers(1, [(":status", "200"), ("x\u{1B}[2J", "a\nb")], end: true),
            Frame(.continuation, stream: 1)
        )
        #expect(!message.isEmpty)
        #expect(!message.unicodeScalars.contains { $0.properties.generalCategory == .control })
        link.finish()
    }

    @Test("The names in a server's certificate are escaped")
    func certificateNames() throws {
        let authority = try CertificateAuthority(commonName: "Root \u{9B}2J")
        let certificate = try #require(
            try PEM.certificates(in: authority.certificatePEM, code: .trustRootsUnreadable).first
        )
        let names = ServerCertificate(certificate.pointer)
        for name in [names.subject, names.issuer] {
            #expect(name.contains(#"\u{9b}2J"#))
            #expect(!name.unicodeScalars.contains { $0.properties.generalCategory == .control })
        }
    }
}
