package import Crypto
import Foundation
import SwiftASN1
import X509

/// A root and an intermediate certificate that are made like Apple's, and attest keys.
package struct TestAuthority: Sendable {
    /// The root certificate in PEM form.
    package let rootPEM: String
    private let intermediate: Certificate
    private let intermediateKey: Certificate.PrivateKey

    /// - Parameters:
    ///   - now: in seconds since 1970.
    ///   - isAuthority: whether the intermediate certificate may issue others.
    package init(now: Int64, isAuthority: Bool = true) throws {
        let rootKey = Certificate.PrivateKey(P384.Signing.PrivateKey())
        let intermediateKey = Certificate.PrivateKey(P384.Signing.PrivateKey())
        let (rootName, name) = (try Self.name("Root"), try Self.name("Intermediate"))
        let root = try Certificate(
            version: .v3,
            serialNumber: .init(),
            publicKey: rootKey.publicKey,
            notValidBefore: Self.date(now - 1_000_000),
            notValidAfter: Self.date(now + 1_000_000),
            issuer: rootName,
            subject: rootName,
            signatureAlgorithm: .ecdsaWithSHA384,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
            },
            issuerPrivateKey: rootKey
        )
        self.rootPEM = try root.serializeAsPEM().pemString
        self.intermediate = try Certificate(
            version: .v3,
            serialNumber: .init(),
            publicKey: intermediateKey.publicKey,
            notValidBefore: Self.date(now - 1_000_000),
            notValidAfter: Self.date(now + 1_000_000),
            issuer: rootName,
            subject: name,
            signatureAlgorithm: .ecdsaWithSHA384,
            extensions: try Certificate.Extensions {
                Critical(
                    isAuthority
                        ? BasicConstraints.isCertificateAuthority(maxPathLength: 0) : .notCertificateAuthority
                )
            },
            issuerPrivateKey: rootKey
        )
        self.intermediateKey = intermediateKey
    }

    /// Makes the certificates for a key.
    ///
    /// - Parameters:
    ///   - key: the device's key.
    ///   - nonce: what the extension has.
    ///   - now: in seconds since 1970. The leaf is valid from a day before to two days after.
    /// - Returns: the leaf and the intermediate in DER form.
    package func certificates(for key: P256.Signing.PublicKey, nonce: [UInt8], now: Int64) throws -> [[UInt8]] {
        let leaf = try Certificate(
            version: .v3,
            serialNumber: .init(),
            publicKey: .init(key),
            notValidBefore: Self.date(now - 86_400),
            notValidAfter: Self.date(now + 2 * 86_400),
            issuer: self.intermediate.subject,
            subject: try Self.name("Leaf"),
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                Certificate.Extension(
                    oid: [1, 2, 840, 113_635, 100, 8, 2],
                    critical: false,
                    value: ([0x30, 0x24, 0xA1, 0x22, 0x04, 0x20] + nonce)[...]
                )
            },
            issuerPrivateKey: self.intermediateKey
        )
        return try [leaf, self.intermediate].map { certificate in
            var serializer = DER.Serializer()
            try serializer.serialize(certificate)
            return serializer.serializedBytes
        }
    }

    private static func name(_ text: String) throws -> DistinguishedName {
        try DistinguishedName { CommonName("Test \(text)") }
    }

    private static func date(_ seconds: Int64) -> Date { Date(timeIntervalSince1970: Double(seconds)) }
}
