import CWebPushGatewayFiles
import Crypto
import SwiftASN1
@_spi(FixedExpiryValidationTime) import X509

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Verifies evidence of Apple's App Attest without a connection to Apple: that a request comes from an unmodified copy of the
/// app on a real device.
///
/// It follows Apple's "Validating apps that connect to your server". It checks neither the receipt nor the extensions that
/// newer systems add.
///
/// ```swift
/// let challenges = AppAttestChallenges(key: secret)
/// let verifier = try AppAttestVerifier()
/// let challenge = try challenges.challenge(sent, now: now)
/// var key = try await verifier.key(id, attestedBy: attestation, clientDataHash: hash, app: app, now: now)
/// // Later:
/// let counter = try verifier.counter(of: assertion, by: key, clientDataHash: hash, app: app)
/// try key.use(counter: counter, challenge: challenge, now: now)
/// ```
public struct AppAttestVerifier: Sendable, Hashable {
    private let root: Certificate

    /// - Parameter root: the root certificate in PEM form; nil for the certificate "Apple App Attestation Root CA".
    /// - Throws: `AppAttestError.Code.invalidRoot`.
    public init(root: String? = nil) throws(AppAttestError) {
        do {
            self.root = try Certificate(pemEncoded: root ?? Self.applesRoot)
        } catch {
            throw AppAttestError(.invalidRoot, "The root certificate must be one certificate in PEM form: \(error)")
        }
    }

    /// Apple's certificate in PEM form. SHA-256 of its DER form:
    /// `1cb9823ba28ba6ad2d33a006941de2ae4f513ef1d4e831b9f7e0fa7b6242c932`.
    static var applesRoot: String {
        var count = 0
        return String(decoding: UnsafeBufferPointer(start: apns_app_attest_root(&count), count: count), as: UTF8.self)
    }

    /// When the root certificate expires, in seconds since 1970.
    public var rootExpiry: Double { self.root.notValidAfter.timeIntervalSince1970 }

    // MARK: Attestations

    /// The certificates of an attestation: Apple sends the leaf and one intermediate.
    private static let certificateCounts = 1...3
    /// The extension of the leaf that has the nonce.
    private static let nonceExtension: ASN1ObjectIdentifier = [1, 2, 840, 113_635, 100, 8, 2]
    /// What precedes the nonce in the extension: a sequence with a tagged octet string of 32 bytes.
    private static let nonceHead: [UInt8] = [0x30, 0x24, 0xA1, 0x22, 0x04, 0x20]

    /// Verifies the attestation of a new key.
    ///
    /// - Parameters:
    ///   - id: the key's id, 32 bytes, which the device calls `keyId` in base64.
    ///   - attestation: the attestation object.
    ///   - clientDataHash: the hash that the app has passed to `attestKey`: ``AppAttestRequest/clientDataHash``.
    ///   - app: the expected app.
    ///   - now: in seconds since 1970. The certificates of an attestation are valid for a few days.
    /// - Throws: `AppAttestError`: `malformed`, `untrusted`, `otherClientData`, `otherKey`, `otherApp` or `otherEnvironment`.
    public func key(
        _ id: [UInt8],
        attestedBy attestation: [UInt8],
        clientDataHash: [UInt8],
        app: AppAttestApp,
        now: Int64
    ) async throws(AppAttestError) -> AttestedKey {
        let object = try CBORValue(attestation)
        guard object["fmt"]?.text == "apple-appattest" else { throw .malformed("its format is another one") }
        guard let data = object["authData"]?.bytes,
            let chain = object["attStmt"]?["x5c"]?.elements?.map(\.bytes),
            Self.certificateCounts.contains(chain.count)
        else { throw .malformed("it must have authenticator data and up to three certificates") }

        let parsed = try AuthenticatorData(data, hasCredential: true)
        try Self.check(parsed, app)
        guard parsed.counter == 0 else { throw .malformed("the counter of a new key must be 0") }
        guard app.accepts(aaguid: parsed.credential?.aaguid ?? []) else {
            throw AppAttestError(
                .otherEnvironment,
                "The key is not of App Attest's environment for this app. Builds from Xcode have keys of its development "
                    + "environment, which count only for the environment development."
            )
        }
        guard parsed.credential?.id == id else { throw Self.otherKey }

        let certificates = try Self.certificates(chain)
        guard let leaf = certificates.first, let key = P256.Signing.PublicKey(leaf.publicKey) else {
            throw .malformed("its first certificate must have a key of P-256")
        }
        let publicKey = Array(key.x963Representation)
        guard Array(SHA256.hash(data: publicKey)) == id else { throw Self.otherKey }
        let expected = Self.nonceHead + Self.nonce(data, clientDataHash)
        guard leaf.extensions[oid: Self.nonceExtension]?.value.elementsEqual(expected) == true else {
            throw Self.otherClientData
        }
        try await self.check(leaf, certificates.dropFirst(), now)
        return AttestedKey(publicKey: publicKey)
    }

    private static func certificates(_ chain: [[UInt8]?]) throws(AppAttestError) -> [Certificate] {
        do {
            return try chain.map { try Certificate(derEncoded: $0 ?? []) }
        } catch {
            throw .malformed("a certificate cannot be read")
        }
    }

    /// Checks that the certificates lead to the root, and are valid now.
    private func check(
        _ leaf: Certificate,
        _ intermediates: ArraySlice<Certificate>,
        _ now: Int64
    ) async throws(AppAttestError) {
        var verifier = Verifier(rootCertificates: CertificateStore([self.root])) {
            RFC5280Policy(fixedExpiryValidationTime: Date(timeIntervalSince1970: Double(now)))
        }
        guard
            case .validCertificate = await verifier.validate(leaf: leaf, intermediates: CertificateStore(intermediates))
        else {
            throw AppAttestError(
                .untrusted,
                "The certificates of the attestation do not lead to the root certificate, or are not valid now."
            )
        }
    }

    // MARK: Assertions

    /// Verifies an assertion.
    ///
    /// - Parameters:
    ///   - assertion: the assertion object.
    ///   - key: the key that should have made it.
    ///   - clientDataHash: the hash that the app has passed to `generateAssertion`: ``AppAttestRequest/clientDataHash``.
    ///   - app: the expected app.
    /// - Returns: the assertion's counter. Pass it to ``AttestedKey/use(counter:challenge:now:)``.
    /// - Throws: `AppAttestError`: `malformed`, `otherApp` or `otherClientData`.
    public func counter(
        of assertion: [UInt8],
        by key: AttestedKey,
        clientDataHash: [UInt8],
        app: AppAttestApp
    ) throws(AppAttestError) -> UInt32 {
        let object = try CBORValue(assertion)
        guard let data = object["authenticatorData"]?.bytes,
            let signature = try? P256.Signing.ECDSASignature(derRepresentation: object["signature"]?.bytes ?? [])
        else { throw .malformed("it must have authenticator data and a signature") }
        let parsed = try AuthenticatorData(data, hasCredential: false)
        try Self.check(parsed, app)
        // The device signs the nonce as a message, so the nonce is hashed once more.
        guard let publicKey = try? P256.Signing.PublicKey(x963Representation: key.publicKey),
            publicKey.isValidSignature(signature, for: Self.nonce(data, clientDataHash))
        else { throw Self.otherClientData }
        return parsed.counter
    }

    // MARK: Parts

    private static func check(_ data: AuthenticatorData, _ app: AppAttestApp) throws(AppAttestError) {
        guard app.hasHash(data.appHash) else {
            throw AppAttestError(.otherApp, "The evidence was made by an app with another bundle ID or app ID prefix.")
        }
    }

    private static func nonce(_ data: [UInt8], _ clientDataHash: [UInt8]) -> [UInt8] {
        Array(SHA256.hash(data: data + clientDataHash))
    }

    private static let otherKey = AppAttestError(.otherKey, "The attestation is that of another key.")

    private static let otherClientData = AppAttestError(
        .otherClientData,
        "The evidence was made for another challenge or another request, or by another key."
    )
}
