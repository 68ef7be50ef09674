import HTTPTypes
import Hummingbird

/// Refuses requests that a web page of another site may have caused. It is used only if no callers are configured.
///
/// Without callers, everybody who can reach the server may do everything, and so may every page in a browser on the
/// same machine. But such a page cannot set the headers `Origin` and `Sec-Fetch-Site`. If it resolves its own name to a
/// loopback address (DNS rebinding), the request names the page's host in `Host`.
struct OriginGuard {
    static func check(_ request: Request) throws(APIError) {
        let authority = request.head.authority?.lowercased() ?? ""
        guard self.isLoopback(authority) else {
            throw self.error("the header host must name localhost or a loopback address")
        }
        // Like the router, this ignores empty parts of the path.
        guard request.uri.path.split(separator: "/").first == "v1" else { return }
        for origin in request.headers[values: .origin]
        where origin.lowercased() != "http://\(authority)" && origin.lowercased() != "https://\(authority)" {
            throw self.error("the relay refuses requests from pages of other sites")
        }
        for field in request.headers
        where field.name.canonicalName == "sec-fetch-site" && field.value != "same-origin" && field.value != "none" {
            throw self.error("the relay refuses requests from pages of other sites")
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

    /// Whether the server may listen on this host without callers.
    static func isLoopbackAddress(_ host: String) -> Bool {
        self.isLoopback(host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host.lowercased())
    }

    private static func error(_ message: String) -> APIError { APIError(.forbidden, .forbidden, message) }
}
