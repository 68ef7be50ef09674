import HTTP2Wire

/// Just enough ASN.1 (X.690, distinguished encoding) to say what kind of key a sequence of bytes is, and to find the
/// numbers of an EC key. OpenSSL's errors do not tell a wrong kind from a damaged key.
enum DER {
    enum Kind: Equatable {
        case elliptic(EllipticKey)
        /// An EC private key that holds the curve's numbers in the place of its name, which RFC 5480 forbids.
        case unnamedCurve
        case rsa
        /// A private key of another algorithm, in words.
        case otherAlgorithm(String)
        case encrypted
        /// The outermost length goes beyond the bytes.
        case cutOff
        case unknown
    }

    /// An EC private key (RFC 5915).
    struct EllipticKey: Equatable {
        /// The bytes of the curve's object identifier; `nil` when the key does not name it.
        var curve: [UInt8]?
        /// The private key itself; `nil` when there are other bytes in its place.
        var number: [UInt8]?
        /// The public key with the byte that names its form; `nil` when it is not there.
        var publicKey: [UInt8]?
    }

    // The contents of object identifiers.
    static let p256: [UInt8] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
    private static let curves: [(id: [UInt8], name: String)] = [
        (p256, "P-256"),
        ([0x2B, 0x81, 0x04, 0x00, 0x22], "P-384"),
        ([0x2B, 0x81, 0x04, 0x00, 0x23], "P-521"),
        ([0x2B, 0x81, 0x04, 0x00, 0x21], "P-224"),
        ([0x2B, 0x81, 0x04, 0x00, 0x0A], "secp256k1"),
        ([0x2B, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x07], "brainpoolP256r1"),
    ]
    private static let ellipticAlgorithm: [UInt8] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]
    private static let rsaPrefix: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01]
    private static let otherAlgorithms: [(id: [UInt8], name: String)] = [
        ([0x2B, 0x65, 0x70], "an Ed25519 key"),
        ([0x2B, 0x65, 0x71], "an Ed448 key"),
        ([0x2B, 0x65, 0x6E], "an X25519 key"),
        ([0x2A, 0x86, 0x48, 0xCE, 0x38, 0x04, 0x01], "a DSA key"),
        ([0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x03, 0x01], "a Diffie-Hellman key"),
    ]

    static func name(ofCurve id: [UInt8]) -> String {
        curves.first { $0.id == id }?.name ?? "with the identifier \(id)"
    }

    static func kind(of bytes: [UInt8]) -> Kind {
        var outer = DERReader(bytes[...])
        guard let whole = outer.next() else {
            return bytes.first == DERReader.sequence ? .cutOff : .unknown
        }
        guard whole.tag == DERReader.sequence else { return .unknown }
        var kind = kind(ofContent: whole.content)
        if case .elliptic(var key) = kind, whole.whole.count != bytes.count {
            // Who knows what of it is the key.
            key.number = nil
            kind = .elliptic(key)
        }
        return kind
    }

    private static func kind(ofContent content: ArraySlice<UInt8>) -> Kind {
        var fields = DERReader(content)
        guard let first = fields.next(), let second = fields.next() else { return .unknown }
        switch (first.tag, second.tag) {
        case (DERReader.integer, DERReader.sequence):
            // PrivateKeyInfo (RFC 5958): version, algorithm, key.
            return kind(ofAlgorithm: second.content, key: fields.next())
        case (DERReader.integer, DERReader.integer):
            // RSAPrivateKey (RFC 8017) starts with version, modulus.
            return .rsa
        case (DERReader.integer, DERReader.octets):
            return .elliptic(ellipticKey(in: content))
        case (DERReader.sequence, DERReader.octets):
            // EncryptedPrivateKeyInfo (RFC 5958): algorithm, encrypted data.
            return .encrypted
        default:
            return .unknown
        }
    }

    private static func kind(ofAlgorithm content: ArraySlice<UInt8>, key: DERReader.Element?) -> Kind {
        var fields = DERReader(content)
        guard let algorithm = fields.next(), algorithm.tag == DERReader.objectIdentifier else { return .unknown }
        let id = Array(algorithm.content)
        if id == ellipticAlgorithm {
            let curve = curve(in: content[algorithm.content.endIndex...])
            if curve == nil, fields.next()?.tag == DERReader.sequence { return .unnamedCurve }
            var found = EllipticKey()
            if let key, key.tag == DERReader.octets {
                var inner = DERReader(key.content)
                if let whole = inner.next(), whole.tag == DERReader.sequence, whole.whole.count == key.content.count {
                    found = ellipticKey(in: whole.content)
                }
            }
            found.curve = curve
            return .elliptic(found)
        }
        if id.starts(with: rsaPrefix) { return .rsa }
        return .otherAlgorithm(otherAlgorithms.first { $0.id == id }?.name ?? "a key for another algorithm")
    }

    /// ECPrivateKey (RFC 5915): version, key, [0] curve, [1] public key.
    private static func ellipticKey(in content: ArraySlice<UInt8>) -> EllipticKey {
        var found = EllipticKey()
        var fields = DERReader(content)
        guard fields.next()?.tag == DERReader.integer, let number = fields.next(), number.tag == DERReader.octets else {
            return found
        }
        found.number = Array(number.content)
        while let field = fields.next() {
            if field.tag == DERReader.context0 { found.curve = curve(in: field.content) }
            if field.tag == DERReader.context1 {
                var inner = DERReader(field.content)
                // The first byte says how many bits of the last do not count: none.
                guard let bits = inner.next(), bits.tag == DERReader.bits else { continue }
                found.publicKey = Array(bits.content.dropFirst())
            }
        }
        return found
    }

    private static func curve(in content: ArraySlice<UInt8>) -> [UInt8]? {
        var fields = DERReader(content)
        guard let field = fields.next(), field.tag == DERReader.objectIdentifier else { return nil }
        return Array(field.content)
    }
}
