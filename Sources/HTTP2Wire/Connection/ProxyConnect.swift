import APNSBasics

/// An HTTP proxy that connections use.
package struct ProxyEndpoint: Sendable, CustomStringConvertible {
    package struct Credentials: Sendable {
        package var username: String
        package var password: String

        package init(username: String, password: String) {
            self.username = username
            self.password = password
        }
    }

    package var host: String
    package var port: Int
    /// For Basic authentication (RFC 7617). `nil` if the proxy requires none.
    package var credentials: Credentials?

    package init(host: String, port: Int, credentials: Credentials? = nil) {
        self.host = host
        self.port = port
        self.credentials = credentials
    }

    /// Host and port, never the credentials.
    package var description: String { Self.authority(self.host, self.port) }

    /// The authority-form of RFC 9112, section 3.2.3.
    static func authority(_ host: String, _ port: Int) -> String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

/// Requests a tunnel: makes the `CONNECT` request, which the caller sends, and reads the proxy's response (RFC 9110,
/// section 9.3.6; RFC 9112). It turns the response's bytes into one of three actions, without side effects.
///
/// The origin's name is sent to the proxy unresolved: the proxy looks it up.
struct ProxyConnect {
    enum Action: Equatable {
        /// The response is not complete.
        case wait
        /// The tunnel is open. The bytes after the header block belong to the origin.
        case open(rest: [UInt8])
        case fail(WireError)
    }

    /// The maximum size of the response's header blocks in bytes, including interim responses (1xx).
    static let limit = 8192

    /// The request to send to the proxy first.
    let request: [UInt8]

    private enum Place {
        case statusLine
        case fields(status: Int)
        case over
    }

    private let proxy: String
    private let target: String
    private let hasCredentials: Bool
    private var place = Place.statusLine
    private var line: [UInt8] = []
    private var count = 0
    /// The authentication schemes that a 407 offers.
    private var schemes: [String] = []
    /// Whether one of them is Basic, the only one that is supported.
    private var offersBasic = false

    /// Creates the request.
    ///
    /// - Parameters:
    ///   - proxy: The proxy.
    ///   - host: The origin's name or address, without blanks or control characters.
    ///   - port: The origin's port.
    init(_ proxy: ProxyEndpoint, host: String, port: Int) {
        self.proxy = proxy.description
        self.target = ProxyEndpoint.authority(host, port)
        self.hasCredentials = proxy.credentials != nil
        var text = "CONNECT \(self.target) HTTP/1.1\r\nHost: \(self.target)\r\n"
        if let credentials = proxy.credentials {
            let token = Base64.encode("\(credentials.username):\(credentials.password)".utf8)
            text += "Proxy-Authorization: Basic \(token)\r\n"
        }
        self.request = Array((text + "\r\n").utf8)
    }

    /// Processes bytes from the proxy. Do not call it after `open` or `fail`; it then returns `wait`.
    mutating func receive(_ bytes: [UInt8]) -> Action {
        for (index, byte) in bytes.enumerated() {
            if case .over = self.place { return .wait }
            self.count += 1
            guard self.count <= Self.limit else { return self.tooLong() }
            if byte != UInt8(ascii: "\n") {
                self.line.append(byte)
                if case .statusLine = self.place, !self.mayBecomeStatusLine { return self.garbage() }
                continue
            }
            // A bare line feed also ends a line (RFC 9112, section 2.2).
            if self.line.last == UInt8(ascii: "\r") { self.line.removeLast() }
            let action = self.endLine()
            self.line.removeAll(keepingCapacity: true)
            switch action {
            case .wait: continue
            case .open: return .open(rest: Array(bytes[(index + 1)...]))
            case .fail: return action
            }
        }
        return .wait
    }

    /// The proxy closed the connection before its response was complete.
    mutating func end() -> WireError {
        if case .fields(let status) = self.place, status >= 300 { return self.refusal(status) }
        self.place = .over
        return WireError(
            .proxyFailed,
            "the proxy '\(self.proxy)' closed the connection without opening a tunnel to '\(self.target)'"
        )
    }

    // MARK: Parsing

    private mutating func endLine() -> Action {
        switch self.place {
        case .statusLine:
            guard let status = self.status() else { return self.garbage() }
            switch status {
            case 200...299: self.place = .fields(status: status)
            case 100, 102...199, 407: self.place = .fields(status: status)
            // 101 would accept an upgrade that was not requested.
            case 101: return self.garbage()
            default: return .fail(self.refusal(status))
            }
            return .wait
        case .fields(let status):
            guard self.line.isEmpty else {
                if status == 407 { self.noteScheme() }
                return .wait
            }
            switch status {
            case 100...199:
                self.place = .statusLine
                return .wait
            case 200...299:
                self.place = .over
                return .open(rest: [])
            default:
                return .fail(self.refusal(status))
            }
        case .over:
            return .wait
        }
    }

    /// Whether the line so far begins like a status line. This detects a server with another protocol at the first
    /// wrong byte.
    private var mayBecomeStatusLine: Bool {
        let index = self.line.count - 1
        let start = Array("HTTP/1.".utf8)
        return index >= start.count || self.line[index] == start[index]
    }

    /// The code in `HTTP/1.x NNN …`; `nil` if this is not a status line.
    private func status() -> Int? {
        let start = "HTTP/1.".utf8.count
        guard self.line.count >= start + 5, Self.isDigit(self.line[start]), self.line[start + 1] == 0x20 else {
            return nil
        }
        let digits = self.line[(start + 2)..<(start + 5)]
        guard digits.allSatisfy(Self.isDigit), self.line.count == start + 5 || self.line[start + 5] == 0x20 else {
            return nil
        }
        let code = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        return (100...599).contains(code) ? code : nil
    }

    /// Reads `Proxy-Authenticate: Scheme …`.
    private mutating func noteScheme() {
        let text = String(decoding: self.line, as: UTF8.self)
        guard let colon = text.firstIndex(of: ":"), text[..<colon].lowercased() == "proxy-authenticate" else { return }
        let value = text[text.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
        // One field can offer several schemes (RFC 9110, section 11.6.1).
        let words = value.lowercased().split { $0 == " " || $0 == "," || $0 == "\t" }
        self.offersBasic = self.offersBasic || words.contains("basic")
        let scheme = value.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }.prefix(20)
        if !scheme.isEmpty, self.schemes.count < 5 { self.schemes.append(String(scheme)) }
    }

    private mutating func refusal(_ status: Int) -> WireError {
        self.place = .over
        let what = "the proxy '\(self.proxy)' responded with \(status) to CONNECT '\(self.target)'"
        switch status {
        case 401, 407:
            // A proxy should not send 401 (RFC 9110, section 15.5.2), but Tinyproxy does for wrong credentials.
            if !self.schemes.isEmpty, !self.offersBasic {
                let offer = self.schemes.joined(separator: ", ")
                return WireError(
                    .proxyAuthenticationFailed,
                    "\(what): it offers \(offer), and only Basic is supported"
                )
            }
            let offer = self.schemes.isEmpty ? "" : " (it offers: \(self.schemes.joined(separator: ", ")))"
            let wish =
                self.hasCredentials ? "it refuses the user name or password" : "it requires a user name and password"
            return WireError(.proxyAuthenticationFailed, "\(what): \(wish)\(offer)")
        case 408, 425, 429, 500...:
            return WireError(.proxyFailed, what)
        default:
            return WireError(.proxyRefused, "\(what): it does not allow this tunnel")
        }
    }

    private mutating func tooLong() -> Action {
        if case .fields(let status) = self.place, status >= 300 { return .fail(self.refusal(status)) }
        self.place = .over
        return .fail(
            WireError(
                .notAProxy,
                "the response of the proxy '\(self.proxy)' has a header of more than \(Self.limit) bytes"
            )
        )
    }

    private mutating func garbage() -> Action {
        self.place = .over
        return .fail(WireError(.notAProxy, "'\(self.proxy)' does not respond to CONNECT like an HTTP proxy"))
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }
}
