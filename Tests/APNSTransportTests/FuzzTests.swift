import Foundation
import TestSupport
import Testing

@testable import APNSTransport

/// Bytes that a fuzzer chooses, instead of those of a server, a proxy or a file.
struct FuzzTests {
    @Test("Whatever a server sends after TLS, each request has one result and nothing stays behind")
    func fuzzClientSession() throws {
        try Fuzz.run("client-session") { bytes in
            var input = bytes[...]
            let setup = input.popFirst() ?? 0
            let piece = Int(input.popFirst() ?? 0)
            let script = try FrameScript(limit: setup & 0x80 == 0 ? 8 : nil)
            var submitted = 0
            for tag in 0..<UInt64(setup & 7) where (try script.submit(tag)) == .accepted { submitted += 1 }
            if setup & 0x40 == 0 { script.write() }
            while !input.isEmpty {
                let next = piece == 0 ? input : input.prefix(piece)
                input = input.dropFirst(next.count)
                do { try script.server(bytes: Array(next)) } catch { break }
                script.write()
                if script.client.isFinished { break }
                if setup & 0x20 != 0 { script.cancel(1) }
            }
            if script.client.streams.count == 0, script.client.held.isEmpty {
                #expect(script.client.keptBytes == 0 && script.client.uncopiedBodyBytes == 0)
            }
            script.loseConnection()
            let tags = script.takeResults().map(\.tag)
            #expect(tags.count == submitted && Set(tags).count == submitted, "\(tags)")
            #expect(script.client.openCount == 0 && script.client.unwrittenCount == 0)
        }
    }

    @Test("Files of keys and certificates with any content are read or refused") func fuzzKeyFiles() throws {
        try Fuzz.run("key-files") { bytes in
            var input = bytes[...]
            let reader = input.popFirst() ?? 0
            let text = Array(input)
            switch reader % 8 {
            case 0: _ = PEM.privateKey(in: text, passphrase: nil)
            case 1: _ = PEM.privateKey(in: text, passphrase: "open sesame")
            case 2: _ = try? TLSIdentity.read(certificate: text, key: text, passphrase: nil)
            case 3: _ = try? TLSIdentity.read(certificate: text, key: text, passphrase: "open sesame")
            case 4: _ = try? ES256PrivateKey(der: text)
            case 5: _ = try? PEM.certificates(in: String(decoding: text, as: UTF8.self), code: .trustRootsUnreadable)
            case 6: _ = try? ES256PublicKey(pem: String(decoding: text, as: UTF8.self))
            default: _ = TLSIdentity.topics(inExtension: text)
            }
            OpenSSLErrors.clear()
        }
    }

    @Test("A proxy's response leads to the same action, however its bytes are split") func fuzzProxyResponse() throws {
        try Fuzz.run("proxy-response") { bytes in
            let endpoint = ProxyEndpoint(host: "proxy.example.com", port: 3128)
            var whole = ProxyConnect(endpoint, host: "api.push.apple.com", port: 443)
            let expected = whole.receive(bytes)
            var split = ProxyConnect(endpoint, host: "api.push.apple.com", port: 443)
            var action = ProxyConnect.Action.wait
            var count = 0
            for byte in bytes {
                action = split.receive([byte])
                count += 1
                if action != .wait { break }
            }
            if case .open = action { action = .open(rest: Array(bytes.dropFirst(count))) }
            #expect(action == expected)
        }
    }
}
