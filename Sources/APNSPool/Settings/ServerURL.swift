/// A server in a setting: `https://HOST:PORT`, or a proxy with its user. Pure.
@_spi(Relay) public struct ServerURL: Sendable, Hashable {
    static let endpointForm = "https://HOST:PORT"
    static let proxyForm = "http://USER:PASSWORD@HOST:PORT"

    package var host: String
    /// Nil if the URL has no port.
    package var port: Int?
    var username: String?
    var password: String?

    /// Reads `https://HOST:PORT`; the port is optional.
    init(endpoint text: String) throws(SettingKind.Mistake) {
        try self.init(text, "https://", Self.endpointForm)
    }

    /// Reads `http://USER:PASSWORD@HOST:PORT`, user and password percent-encoded (RFC 3986, section 2.1).
    init(proxy text: String) throws(SettingKind.Mistake) {
        let form = Self.proxyForm
        if text.lowercased().hasPrefix("https://") {
            throw Self.not(form, "TLS to the proxy is not supported")
        }
        guard let at = text.lastIndex(of: "@") else {
            try self.init(text, "http://", form)
            try self.requirePort(form)
            return
        }
        let head = text[..<at]
        guard head.lowercased().hasPrefix("http://") else { throw Self.not(form, "it does not start with http://") }
        try self.init("http://" + text[text.index(after: at)...], "http://", form)
        let parts = head.dropFirst("http://".count).split(
            separator: ":",
            maxSplits: 1,
            omittingEmptySubsequences: false
        )
        guard let user = Self.decoded(parts.first ?? ""), !user.isEmpty, !user.contains(":") else {
            throw Self.not(form, "the user name is empty, holds a colon or is wrongly percent-encoded")
        }
        self.username = user
        if parts.count > 1 {
            guard let password = Self.decoded(parts[1]) else {
                throw Self.not(form, "the password is wrongly percent-encoded")
            }
            self.password = password
        }
        try self.requirePort(form)
    }

    private init(_ text: String, _ scheme: String, _ form: String) throws(SettingKind.Mistake) {
        guard text.lowercased().hasPrefix(scheme) else { throw Self.not(form, "it does not start with \(scheme)") }
        var rest = text.dropFirst(scheme.count)
        if rest.hasSuffix("/") { rest.removeLast() }
        var port: Substring?
        if rest.hasPrefix("[") {
            guard let end = rest.firstIndex(of: "]") else { throw Self.not(form, "it has a '[' without its ']'") }
            let tail = rest[rest.index(after: end)...]
            guard tail.isEmpty || tail.hasPrefix(":") else {
                throw Self.not(form, "it has more than a port after the address")
            }
            port = tail.isEmpty ? nil : tail.dropFirst()
            rest = rest[rest.index(after: rest.startIndex)..<end]
        } else if let colon = rest.firstIndex(of: ":") {
            port = rest[rest.index(after: colon)...]
            rest = rest[..<colon]
        }
        guard APNSEnvironment.isHost(String(rest)), !rest.utf8.contains(where: { "/?#@\\%".utf8.contains($0) }) else {
            throw Self.not(form, "it names no host, or has more than a host and a port")
        }
        self.host = String(rest)
        guard let port else { return }
        guard port.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(port),
            APNSEnvironment.ports.contains(number)
        else { throw Self.not(form, "its port is not a number from 1 to 65535") }
        self.port = number
    }

    private func requirePort(_ form: String) throws(SettingKind.Mistake) {
        if self.port == nil { throw Self.not(form, "it names no port") }
    }

    /// Never quotes the text, which may contain a password.
    private static func not(_ form: String, _ why: String) -> SettingKind.Mistake {
        SettingKind.Mistake(code: .malformed, expected: "of the form \(form): \(why)")
    }

    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            func digit() -> UInt8? {
                rest.popFirst().flatMap { Character(Unicode.Scalar($0)).hexDigitValue.map { UInt8($0) } }
            }
            guard let high = digit(), let low = digit() else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
