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

    private let proxy: String
    private let target: String
    private let hasCredentials: Bool
    /// The bytes after the last complete line of the response.
    private var unread: ArraySlice<UInt8> = []
    /// How many bytes the complete lines have, those of interim responses included.
    private var linesSize = 0
    /// The status of the last response; nil before its status line is complete.
    private var status: Int?
    /// The header lines of that response.
    private var fields: [String] = []
    private var isOver = false

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
        if self.isOver { return .wait }
        self.unread += bytes
        let action = self.readLines()
        self.isOver = action != .wait
        return action
    }

    /// The proxy closed the connection before its response was complete.
    func end() -> WireError {
        if let status, status >= 300 { return self.refusal(status) }
        return WireError(
            .proxyFailed,
            "the proxy '\(self.proxy)' closed the connection without opening a tunnel to '\(self.target)'"
        )
    }

    // MARK: Parsing

    private mutating func readLines() -> Action {
        while let end = self.unread.firstIndex(of: UInt8(ascii: "\n")) {
            var line = self.unread[..<end]
            if self.status == nil, !Self.mayBecomeStatusLine(line) { return .fail(self.garbage) }
            guard self.linesSize + line.count < Self.limit else { break }
            self.linesSize += line.count + 1
            self.unread = self.unread[(end + 1)...]
            // A bare line feed also ends a line (RFC 9112, section 2.2).
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            guard let status else {
                // 101 would accept an upgrade that was not requested.
                guard let status = Self.status(line), status != 101 else { return .fail(self.garbage) }
                self.status = status
                guard status < 300 || status == 407 else { return .fail(self.refusal(status)) }
                continue
            }
            if !line.isEmpty {
                self.fields.append(String(decoding: line, as: UTF8.self))
            } else if status < 200 {
                self.status = nil
                self.fields = []
            } else {
                return status < 300 ? .open(rest: Array(self.unread)) : .fail(self.refusal(status))
            }
        }
        if self.status == nil, !Self.mayBecomeStatusLine(self.unread) { return .fail(self.garbage) }
        return self.linesSize + self.unread.count > Self.limit ? .fail(self.tooLong) : .wait
    }

    /// Whether a line begins like a status line, as far as it is known. This detects a server with another protocol at
    /// the first wrong byte.
    private static func mayBecomeStatusLine(_ line: ArraySlice<UInt8>) -> Bool {
        zip(line, "HTTP/1.".utf8).allSatisfy { $0 == $1 }
    }

    /// The code in `HTTP/1.x NNN …`; `nil` if this is not a status line.
    private static func status(_ line: ArraySlice<UInt8>) -> Int? {
        let line = Array(line)
        let start = "HTTP/1.".utf8.count
        guard line.count >= start + 5, Self.isDigit(line[start]), line[start + 1] == 0x20 else { return nil }
        let digits = line[(start + 2)..<(start + 5)]
        guard digits.allSatisfy(Self.isDigit), line.count == start + 5 || line[start + 5] == 0x20 else { return nil }
        let code = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        return (100...599).contains(code) ? code : nil
    }

    /// The schemes that the fields `Proxy-Authenticate: Scheme …` offer, and whether one of them is Basic, the only one
    /// that is supported.
    private static func schemes(_ fields: [String]) -> (offered: [String], hasBasic: Bool) {
        var (offered, hasBasic): ([String], Bool) = ([], false)
        for field in fields {
            guard let colon = field.firstIndex(of: ":"), field[..<colon].lowercased() == "proxy-authenticate" else {
                continue
            }
            let value = field[field.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
            // One field can offer several schemes (RFC 9110, section 11.6.1).
            let words = value.lowercased().split { $0 == " " || $0 == "," || $0 == "\t" }
            hasBasic = hasBasic || words.contains("basic")
            let scheme = value.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }.prefix(20)
            if !scheme.isEmpty, offered.count < 5 { offered.append(String(scheme)) }
        }
        return (offered, hasBasic)
    }

    private func refusal(_ status: Int) -> WireError {
        let what = "the proxy '\(self.proxy)' responded with \(status) to CONNECT '\(self.target)'"
        switch status {
        case 401, 407:
            // A proxy should not send 401 (RFC 9110, section 15.5.2), but Tinyproxy does for wrong credentials.
            let (schemes, hasBasic) = Self.schemes(self.fields)
            let offer = schemes.joined(separator: ", ")
            guard schemes.isEmpty || hasBasic else {
                return WireError(
                    .proxyAuthenticationFailed,
                    "\(what): it offers \(offer), and only Basic is supported"
                )
            }
            let wish =
                self.hasCredentials ? "it refuses the user name or password" : "it requires a user name and password"
            let end = schemes.isEmpty ? "" : " (it offers: \(offer))"
            return WireError(.proxyAuthenticationFailed, "\(what): \(wish)\(end)")
        case 408, 425, 429, 500...:
            return WireError(.proxyFailed, what)
        default:
            return WireError(.proxyRefused, "\(what): it does not allow this tunnel")
        }
    }

    private var tooLong: WireError {
        if let status, status >= 300 { return self.refusal(status) }
        return WireError(
            .notAProxy,
            "the response of the proxy '\(self.proxy)' has a header of more than \(Self.limit) bytes"
        )
    }

    private var garbage: WireError {
        WireError(.notAProxy, "'\(self.proxy)' does not respond to CONNECT like an HTTP proxy")
    }

    private static func isDigit(_ byte: UInt8) -> Bool { byte >= 0x30 && byte <= 0x39 }
}
