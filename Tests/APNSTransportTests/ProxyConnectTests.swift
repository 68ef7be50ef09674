import Foundation
import TestSupport
import Testing

@testable import APNSTransport

/// The machine that requests a tunnel from a proxy: bytes in, actions out.
struct ProxyConnectTests {
    private static let proxy = ProxyEndpoint(host: "proxy.example.com", port: 3128)

    private func machine(
        _ proxy: ProxyEndpoint = ProxyConnectTests.proxy,
        host: String = "api.push.apple.com",
        port: Int = 443
    ) -> ProxyConnect {
        ProxyConnect(proxy, host: host, port: port)
    }

    /// The action after a response that arrives in these pieces.
    private func action(on pieces: [[UInt8]], _ machine: ProxyConnect? = nil) -> ProxyConnect.Action {
        var machine = machine ?? self.machine()
        var rest: [UInt8]?
        for piece in pieces {
            if rest != nil {
                rest? += piece
                continue
            }
            switch machine.receive(piece) {
            case .wait: continue
            case .open(let bytes): rest = bytes
            case .fail(let error): return .fail(error)
            }
        }
        return rest.map { .open(rest: $0) } ?? .wait
    }

    private func action(on text: String) -> ProxyConnect.Action { self.action(on: [Array(text.utf8)]) }

    private func code(on text: String) -> WireError.Code? {
        if case .fail(let error) = self.action(on: text) { error.code } else { nil }
    }

    // MARK: The request

    @Test func theRequestNamesTheOriginInAuthorityForm() {
        let text = String(decoding: self.machine().request, as: UTF8.self)
        #expect(text == "CONNECT api.push.apple.com:443 HTTP/1.1\r\nHost: api.push.apple.com:443\r\n\r\n")
        let six = String(decoding: self.machine(host: "::1", port: 2197).request, as: UTF8.self)
        #expect(six.hasPrefix("CONNECT [::1]:2197 HTTP/1.1\r\nHost: [::1]:2197\r\n"))
    }

    @Test func credentialsUseBasicAuthentication() {
        var proxy = Self.proxy
        // RFC 7617, section 2, and section 2.1 for UTF-8.
        proxy.credentials = .init(username: "Aladdin", password: "open sesame")
        let text = String(decoding: self.machine(proxy).request, as: UTF8.self)
        #expect(text.contains("\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"))
        proxy.credentials = .init(username: "test", password: "123\u{A3}")
        #expect(String(decoding: self.machine(proxy).request, as: UTF8.self).contains("Basic dGVzdDoxMjPCow==\r\n"))
    }

    // MARK: Responses

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200\r\n\r\n", "HTTP/1.0 200 Connection established\n\n",
        "HTTP/1.1 204 Fine\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nVia: x\r\n\r\n",
    ])
    func aTunnelOpensHoweverTheResponseIsSplit(response: String) {
        // A 2xx response to CONNECT has no body: the bytes after its header belong to the origin.
        let behind: [UInt8] = [22, 3, 3, 0, 13, 10, 13, 10, 255]
        let bytes = Array(response.utf8) + behind
        #expect(self.action(on: bytes.map { [$0] }) == .open(rest: behind))
        for position in 0...bytes.count {
            let pieces = [Array(bytes[..<position]), Array(bytes[position...])]
            #expect(self.action(on: pieces) == .open(rest: behind), "cut at \(position)")
        }
        for position in 0..<response.utf8.count {
            #expect(self.action(on: [Array(bytes[..<position])]) == .wait, "cut off at \(position)")
        }
    }

    @Test(arguments: [
        (407, WireError.Code.proxyAuthenticationFailed, true), (401, .proxyAuthenticationFailed, true),
        (403, .proxyRefused, true), (404, .proxyRefused, true),
        (302, .proxyRefused, true), (500, .proxyFailed, false), (502, .proxyFailed, false), (503, .proxyFailed, false),
        (504, .proxyFailed, false), (408, .proxyFailed, false), (429, .proxyFailed, false),
    ])
    func aRefusalNamesProxyStatusAndHost(status: Int, code: WireError.Code, isConfiguration: Bool) {
        let action = self.action(on: "HTTP/1.1 \(status) No\r\nContent-Length: 2\r\n\r\nno")
        guard case .fail(let error) = action else {
            Issue.record("\(action)")
            return
        }
        #expect(error.code == code)
        #expect(error.isConfiguration == isConfiguration)
        for part in ["proxy.example.com:3128", "\(status)", "api.push.apple.com:443"] {
            #expect(error.message.contains(part), "\(error)")
        }
    }

    @Test func aStatus407NamesTheSchemesAndHidesTheCredentials() {
        var proxy = Self.proxy
        proxy.credentials = .init(username: "fern", password: "sec:ret")
        let response =
            "HTTP/1.1 407 Who?\r\nProxy-Authenticate: Negotiate\r\nproxy-authenticate:\tBasic realm=x\r\n\r\n"
        guard case .fail(let error) = self.action(on: [Array(response.utf8)], self.machine(proxy)) else {
            Issue.record("no failure")
            return
        }
        #expect(error.message.contains("Negotiate, Basic"))
        #expect(error.message.contains("refuses the user name or password"))
        #expect(!error.message.contains("sec") && !error.message.contains("fern"))
        #expect(!"\(proxy)".contains("sec") && !"\(proxy)".contains("fern"))
    }

    @Test("A proxy without Basic authentication is named as such", arguments: [true, false])
    func unsupportedSchemes(hasCredentials: Bool) {
        var proxy = Self.proxy
        if hasCredentials { proxy.credentials = .init(username: "fern", password: "secret") }
        func message(_ fields: String) -> String {
            let response = Array("HTTP/1.1 407 Who?\r\n\(fields)\r\n".utf8)
            guard case .fail(let error) = self.action(on: [response], self.machine(proxy)) else { return "" }
            return error.message
        }
        let unsupported = message("Proxy-Authenticate: Negotiate\r\nProxy-Authenticate: NTLM\r\n")
        #expect(unsupported.contains("it offers Negotiate, NTLM, and only Basic is supported"), "\(unsupported)")
        let basic = message("Proxy-Authenticate: Negotiate, Basic realm=\"x\"\r\n")
        #expect(!basic.contains("only Basic") && basic.contains("user name"), "\(basic)")
    }

    // MARK: Bytes that are not a response

    @Test(arguments: [
        "SSH-2.0-OpenSSH_9.2\r\n", "\u{15}\u{3}\u{1}", "\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.1 999 What\r\n\r\n",
        "HTTP/1.1\r\n\r\n", "HTTP/1.x 200 OK\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "PRI * HTTP/2.0\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nnonsense",
    ])
    func aPeerThatIsNotAProxyIsDetected(text: String) {
        #expect(self.code(on: text) == .notAProxy)
    }

    @Test func theFirstWrongByteIsDetected() {
        #expect(self.code(on: "HTTP/1.") == nil)
        #expect(self.code(on: "HTTQ") == .notAProxy)
    }

    @Test func headersAreLimited() {
        let start = "HTTP/1.1 200 OK\r\nX: "
        let room = ProxyConnect.limit - start.utf8.count - 4
        let fits = start + String(repeating: "x", count: room) + "\r\n\r\n"
        #expect(fits.utf8.count == ProxyConnect.limit)
        #expect(self.action(on: fits) == .open(rest: []))
        #expect(self.code(on: start + String(repeating: "x", count: room + 1) + "\r\n\r\n") == .notAProxy)
        // Too long: a line without an end, many interim responses, and a refusal, whose status still counts.
        #expect(self.code(on: "HTTP/1.1 200 " + String(repeating: "x", count: 10_000)) == .notAProxy)
        #expect(self.code(on: String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 1000)) == .notAProxy)
        #expect(
            self.code(on: "HTTP/1.1 407 No\r\nX: " + String(repeating: "x", count: 10_000))
                == .proxyAuthenticationFailed
        )
    }

    @Test("The fields of an interim response are not those of the final one")
    func interimFields() {
        let interim = "HTTP/1.1 103 Early Hints\r\nProxy-Authenticate: NTLM\r\n\r\n"
        let action = self.action(on: interim + "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n\r\n")
        guard case .fail(let error) = action else { return #expect(Bool(false), "\(action)") }
        #expect(error.code == .proxyAuthenticationFailed && !error.message.contains("NTLM"), "\(error)")
    }

    @Test func anEarlyCloseIsTransient() {
        for text in ["", "HTTP", "HTTP/1.1 200 OK\r\nX", "HTTP/1.1 100 Continue\r\n\r\n"] {
            var machine = self.machine()
            #expect(machine.receive(Array(text.utf8)) == .wait)
            let error = machine.end()
            #expect(error.code == .proxyFailed)
            #expect(!error.isConfiguration)
            #expect(
                error.message.contains("proxy.example.com:3128") && error.message.contains("api.push.apple.com:443")
            )
        }
        var machine = self.machine()
        #expect(machine.receive(Array("HTTP/1.1 407 No\r\n".utf8)) == .wait)
        #expect(machine.end().code == .proxyAuthenticationFailed)
    }

    /// The way a damaged response is split into reads does not change the outcome.
    @Test func damagedResponsesEndTheSameHoweverTheyAreSplit() {
        let run = PropertyRun(commands: 400, runs: 400)
        let responses = [
            "200 OK\r\nVia: x\r\n\r\n\u{16}\u{3}", "407 No\r\nProxy-Authenticate: Basic\r\n\r\n", "502 No\r\n\r\n",
            "103 X\r\nProxy-Authenticate: NTLM\r\n\r\nHTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n\r\n",
        ]
        for seed in run.seeds {
            var random = SeededRandom(seed: seed)
            var bytes = Array("HTTP/1.1 \(responses.randomElement(using: &random) ?? "")".utf8)
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            var pieces: [[UInt8]] = []
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Int.random(in: 1...rest.count, using: &random)
                pieces.append(Array(rest.prefix(count)))
                rest = rest.dropFirst(count)
            }
            #expect(self.action(on: pieces) == self.action(on: [bytes]), "\(run.replay(seed))")
        }
    }
}
