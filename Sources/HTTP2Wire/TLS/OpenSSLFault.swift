/// Why OpenSSL did not do what it was asked for, in its words. Holds no secret.
package struct OpenSSLFault: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String

    static func drained() -> OpenSSLFault { OpenSSLFault(description: OpenSSLErrors.drain().text) }
}
