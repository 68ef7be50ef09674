import HTTPTypes
import Hummingbird

/// Refuses requests that a web page of another site may have caused. Used only if no callers are configured.
///
/// Without callers, everybody who reaches the server may do everything, and every page in a browser on the same machine
/// can reach it. Such a page cannot set the headers `Origin` and `Sec-Fetch-Site`. If it resolves its own name to a
/// loopback address (DNS rebinding), this name appears in `Host`.
struct OriginGuard {
    static func check(_ request: Request) throws(APIError) {
        let authority = request.head.authority?.lowercased() ?? ""
        guard self.isLoopback(authority) else {
            throw self.error("expected the header host to name localhost or a loopback address")
        }
        // As the router reads it: it leaves out empty parts of a path.
        guard request.uri.path.split(separator: "/").first == "v1" else { return }
        for origin in request.headers[values: .origin]
        where origin.lowercased() != "http://\(authority)" && origin.lowercased() != "https://\(authority)" {
            throw self.error("expected no request from a page of another site")
        }
        for field in request.headers
        where field.name.canonicalName == "sec-fetch-site" && field.value != "same-origin" && field.value != "none" {
            throw self.error("expected no request from a page of another site")
        }
    }

    /// Whether the value of `Host` is `localhost`, an address in 127.0.0.0/8 or `[::1]`, with or without a port.
    static func isLoopback(_ authority: String) -> Bool {
        var name = Substring(authority)
        if let colon = name.lastIndex(of: ":"), !name.hasSuffix("]") {
            guard name[colon...].dropFirst().utf8.allSatisfy({ $0 &- 0x30 <= 9 }) else { return false }
            name = name[..<colon]
        }
        if name == "localhost" || name == "[::1]" { return true }
        let numbers = name.split(separator: ".", omittingEmptySubsequences: false)
        return numbers.count == 4 && numbers[0] == "127"
            && numbers.allSatisfy { part in
                part.utf8.count <= 3 && part.utf8.allSatisfy { $0 &- 0x30 <= 9 } && UInt8(part) != nil
            }
    }

    /// Whether the server may listen there without callers.
    static func isLoopbackAddress(_ host: String) -> Bool {
        self.isLoopback(host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host.lowercased())
    }

    private static func error(_ message: String) -> APIError { APIError(.forbidden, .forbidden, message) }
}
