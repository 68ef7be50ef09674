import APNSPool
import ArgumentParser

/// `HOST:PORT` or `[ADDRESS]:PORT`, perhaps with a slash behind it: what stands in a URL behind its scheme.
enum HostAndPort {
    struct Mistake: Error {
        /// As a predicate: "has …", "names …".
        var what: String
    }

    static func parse(_ text: Substring) -> Result<(host: String, port: Int?), Mistake> {
        let rest = text.hasSuffix("/") ? text.dropLast() : text
        let host: String
        let port: Substring?
        if rest.hasPrefix("[") {
            guard let end = rest.firstIndex(of: "]") else {
                return .failure(Mistake(what: "has a '[' without its ']'"))
            }
            host = String(rest[rest.index(after: rest.startIndex)..<end])
            let tail = rest[rest.index(after: end)...]
            guard tail.isEmpty || tail.hasPrefix(":") else {
                return .failure(Mistake(what: "has more than a port behind the address"))
            }
            port = tail.isEmpty ? nil : tail.dropFirst()
        } else {
            let parts = rest.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            host = String(parts.first ?? "")
            port = parts.count > 1 ? parts[1] : nil
        }
        let isPlain = host.utf8.allSatisfy { byte in
            byte > 0x20 && byte < 0x7F && !"/?#@\\%".utf8.contains(byte)
        }
        guard !host.isEmpty, isPlain else {
            return .failure(Mistake(what: "names no host, or has more than a host and a port"))
        }
        guard let port else { return .success((host, nil)) }
        guard port.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(port), (1...65535).contains(number)
        else { return .failure(Mistake(what: "has a port that is not a number from 1 to 65535")) }
        return .success((host, number))
    }
}

/// `http://USER:PASSWORD@HOST:PORT`, user and password percent-encoded (RFC 3986, section 2.1). Complaints about it show
/// neither.
struct ProxyURL {
    var proxy: APNSClientConfiguration.Proxy

    init(_ setting: Setting) throws {
        func wrong(_ what: String) -> UsageError {
            UsageError("\(setting.name): the proxy \(what). It has the form http://USER:PASSWORD@HOST:PORT.")
        }
        let text = setting.text
        if text.lowercased().hasPrefix("https://") {
            throw wrong("is an https:// one: only proxies that are spoken to without TLS are supported")
        }
        guard text.lowercased().hasPrefix("http://") else { throw wrong("does not start with http://") }
        var rest = text.dropFirst("http://".count)
        var username: String?
        var password: String?
        if let at = rest.lastIndex(of: "@") {
            let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            rest = rest[rest.index(after: at)...]
            guard let user = Self.decoded(parts.first ?? ""), !user.isEmpty, !user.contains(":") else {
                throw wrong("has a user name that is empty, holds a colon or is wrongly percent-encoded")
            }
            username = user
            if parts.count > 1 {
                guard let decoded = Self.decoded(parts[1]) else {
                    throw wrong("has a password that is wrongly percent-encoded")
                }
                password = decoded
            }
        }
        switch HostAndPort.parse(rest) {
        case .failure(let error): throw wrong(error.what)
        case .success(let parts):
            guard let port = parts.port else { throw wrong("names no port") }
            self.proxy = .init(host: parts.host, port: port, username: username, password: password)
        }
    }

    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(Self.digit), let low = rest.popFirst().flatMap(Self.digit) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}
