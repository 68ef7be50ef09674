/// An OpenSSL failure, described by OpenSSL's own error texts. Contains no secret.
package struct OpenSSLFault: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String

    static func drained() -> OpenSSLFault { OpenSSLFault(description: OpenSSLErrors.drain().text) }
}
