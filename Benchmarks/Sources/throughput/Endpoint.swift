import APNSPool
import ArgumentParser

/// `https://HOST[:PORT]`, the host of an IPv6 address in brackets.
struct Endpoint: Sendable {
    let text: String
    let host: String
    let port: Int

    init(_ text: String) throws {
        let scheme = "https://"
        guard text.hasPrefix(scheme) else { throw ValidationError("an endpoint begins with https://") }
        var authority = text.dropFirst(scheme.count)
        if authority.hasSuffix("/") { authority.removeLast() }
        var port = 443
        if let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") {
            guard let number = UInt16(authority[authority.index(after: colon)...]), number > 0 else {
                throw ValidationError("an endpoint's port is 1 to 65535")
            }
            port = Int(number)
            authority = authority[..<colon]
        }
        if authority.hasPrefix("["), authority.hasSuffix("]") { authority = authority.dropFirst().dropLast() }
        guard !authority.isEmpty, !authority.contains("/") else {
            throw ValidationError("an endpoint is https://HOST[:PORT], without a path")
        }
        self.text = text
        host = String(authority)
        self.port = port
    }

    var environment: APNSEnvironment { .custom(host: host, port: port) }
}
