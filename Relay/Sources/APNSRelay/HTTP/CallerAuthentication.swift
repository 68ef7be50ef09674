import Crypto
import HTTPTypes

/// Identifies callers by their bearer tokens. A token is never stored, logged or returned.
struct CallerAuthentication: Sendable {
    /// The caller of every request if no callers are configured.
    static let anybody = Caller(name: "local", tokenDigests: [], roles: [.operate])

    private let callers: [Caller]

    init(_ callers: [Caller]) {
        self.callers = callers
    }

    /// Whether no callers are configured, which is allowed on loopback addresses only.
    var isOpen: Bool { self.callers.isEmpty }

    /// The caller of a request.
    func caller(_ headers: HTTPFields) throws(APIError) -> Caller {
        if self.isOpen { return Self.anybody }
        let values = headers[values: .authorization]
        guard values.count == 1, let value = values.first else {
            throw Self.error("the request needs exactly one header authorization: Bearer TOKEN")
        }
        let parts = value.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else {
            throw Self.error("the request needs the header authorization: Bearer TOKEN")
        }
        var hash = SHA256()
        var token = String(parts[1])
        token.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
        let digest = Array(hash.finalize())
        // Compares the token with all tokens of all callers in constant time, so the duration reveals nothing about the
        // digests.
        var found: Caller?
        for caller in self.callers {
            for known in caller.tokenDigests where Self.isEqual(known, digest) { found = caller }
        }
        guard let found else { throw Self.error("no caller has this token") }
        return found
    }

    private static func isEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        guard left.count == right.count else { return false }
        var difference: UInt8 = 0
        for (one, other) in zip(left, right) { difference |= one ^ other }
        return difference == 0
    }

    private static func error(_ message: String) -> APIError { APIError(.unauthorized, .unauthorized, message) }
}
