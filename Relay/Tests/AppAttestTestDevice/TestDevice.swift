package import Crypto

/// A device with a key of App Attest. Its evidence can be given any fault.
package struct TestDevice: Sendable {
    /// The parts of an attestation.
    package struct Attestation: Sendable {
        package var format = "apple-appattest"
        package var appID: String
        package var counter: UInt32 = 0
        package var aaguid: [UInt8]
        package var credentialID: [UInt8]
        package var clientDataHash: [UInt8]
        /// What follows the credential's id: the key, and the extensions of newer systems.
        package var rest: [UInt8] = [0xA0]
        package var signedKey: P256.Signing.PublicKey
        /// The nonce in the certificate; nil for the right one.
        package var nonce: [UInt8]?
        package var receipt: [UInt8]? = Array(repeating: 9, count: 300)
    }

    package static let production = Array("appattest".utf8) + Array(repeating: UInt8(0), count: 7)
    package static let development = Array("appattestdevelop".utf8)

    package let authority: TestAuthority
    package let appID: String
    package let key = P256.Signing.PrivateKey()

    package init(_ authority: TestAuthority, appID: String) {
        self.authority = authority
        self.appID = appID
    }

    /// The key's id.
    package var keyID: [UInt8] { Array(SHA256.hash(data: self.key.publicKey.x963Representation)) }

    /// An attestation object.
    ///
    /// - Parameters:
    ///   - clientDataHash: what the app passes to `attestKey`.
    ///   - now: in seconds since 1970.
    ///   - change: gives it faults.
    package func attestation(
        _ clientDataHash: [UInt8],
        now: Int64,
        _ change: (inout Attestation) -> Void = { _ in }
    ) throws -> [UInt8] {
        var parts = Attestation(
            appID: self.appID,
            aaguid: Self.production,
            credentialID: self.keyID,
            clientDataHash: clientDataHash,
            signedKey: self.key.publicKey
        )
        change(&parts)
        let data =
            Self.head(parts.appID, parts.counter) + parts.aaguid + [
                0, UInt8(truncatingIfNeeded: parts.credentialID.count),
            ]
            + parts.credentialID + parts.rest
        let nonce = parts.nonce ?? Array(SHA256.hash(data: data + parts.clientDataHash))
        let chain = try self.authority.certificates(for: parts.signedKey, nonce: nonce, now: now)
        var statement = [("x5c", CBOREncoder.array(chain.map { CBOREncoder.bytes($0) }))]
        if let receipt = parts.receipt { statement.append(("receipt", CBOREncoder.bytes(receipt))) }
        return CBOREncoder.map([
            ("fmt", CBOREncoder.text(parts.format)), ("attStmt", CBOREncoder.map(statement)),
            ("authData", CBOREncoder.bytes(data)),
        ])
    }

    /// An assertion object.
    ///
    /// - Parameters:
    ///   - clientDataHash: what the app passes to `generateAssertion`.
    ///   - counter: the key's counter.
    ///   - appID: the app's id; nil for the right one.
    package func assertion(_ clientDataHash: [UInt8], counter: UInt32, appID: String? = nil) throws -> [UInt8] {
        let data = Self.head(appID ?? self.appID, counter)
        let nonce = Array(SHA256.hash(data: data + clientDataHash))
        let signature = try self.key.signature(for: nonce).derRepresentation
        return CBOREncoder.map([
            ("signature", CBOREncoder.bytes(Array(signature))), ("authenticatorData", CBOREncoder.bytes(data)),
        ])
    }

    private static func head(_ appID: String, _ counter: UInt32) -> [UInt8] {
        Array(SHA256.hash(data: Array(appID.utf8))) + [0x40]
            + (0..<4).map { UInt8(truncatingIfNeeded: counter >> (24 - 8 * $0)) }
    }
}
