/// What the device says about itself in an attestation or an assertion: "authenticator data" of WebAuthn, section 6.1.
///
/// Extensions may follow; their authenticity is checked with the rest, but they are not read.
struct AuthenticatorData: Sendable, Hashable {
    /// What only an attestation has: the new key.
    struct Credential: Sendable, Hashable {
        /// Names the environment of App Attest.
        var aaguid: [UInt8]
        var id: [UInt8]
    }

    /// The hash of the app's id.
    let appHash: [UInt8]
    let counter: UInt32
    let credential: Credential?

    private static let hashCount = 32
    /// The hash, the flags and the counter.
    private static let headCount = 37
    private static let aaguidCount = 16

    /// - Parameter hasCredential: whether it belongs to an attestation.
    /// - Throws: `AppAttestError.Code.malformed`.
    init(_ bytes: [UInt8], hasCredential: Bool) throws(AppAttestError) {
        guard bytes.count >= Self.headCount else { throw .malformed("its authenticator data is too short") }
        self.appHash = Array(bytes.prefix(Self.hashCount))
        self.counter = bytes[33..<Self.headCount].reduce(0) { $0 << 8 | UInt32($1) }
        guard hasCredential else {
            self.credential = nil
            return
        }
        let rest = bytes.dropFirst(Self.headCount)
        let length = rest.dropFirst(Self.aaguidCount).prefix(2)
        let id = rest.dropFirst(Self.aaguidCount + 2).prefix(AttestedKey.idCount)
        guard length.elementsEqual([0, UInt8(AttestedKey.idCount)]), id.count == AttestedKey.idCount else {
            throw .malformed("its authenticator data has no credential of \(AttestedKey.idCount) bytes")
        }
        self.credential = Credential(aaguid: Array(rest.prefix(Self.aaguidCount)), id: Array(id))
    }
}
