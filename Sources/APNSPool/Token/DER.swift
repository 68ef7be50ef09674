/// Just enough ASN.1 (X.690, distinguished encoding) to say what kind of key a sequence of bytes is. The key itself is
/// read by swift-crypto, whose errors do not tell a wrong kind from a damaged key.
enum DER {
    enum Kind: Equatable {
        /// An EC private key; the curve as the bytes of its object identifier, `nil` when the key does not name it.
        case elliptic(curve: [UInt8]?)
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

    static let sequence: UInt8 = 0x30
    private static let integer: UInt8 = 0x02
    private static let octets: UInt8 = 0x04
    private static let identifier: UInt8 = 0x06
    private static let context0: UInt8 = 0xA0

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
    private static let ellipticKey: [UInt8] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01]
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
        var outer = Reader(bytes[...])
        guard let whole = outer.next() else {
            return bytes.first == sequence ? .cutOff : .unknown
        }
        guard whole.tag == sequence else { return .unknown }
        var fields = Reader(whole.content)
        guard let first = fields.next(), let second = fields.next() else { return .unknown }
        switch (first.tag, second.tag) {
        case (integer, sequence):
            // PrivateKeyInfo (RFC 5958): version, algorithm, key.
            return kind(ofAlgorithm: second.content)
        case (integer, integer):
            // RSAPrivateKey (RFC 8017) starts with version, modulus.
            return .rsa
        case (integer, octets):
            // ECPrivateKey (RFC 5915): version, key, [0] curve, [1] public key.
            while let field = fields.next() {
                if field.tag == context0 { return .elliptic(curve: curve(in: field.content)) }
            }
            return .elliptic(curve: nil)
        case (sequence, octets):
            // EncryptedPrivateKeyInfo (RFC 5958): algorithm, encrypted data.
            return .encrypted
        default:
            return .unknown
        }
    }

    private static func kind(ofAlgorithm content: ArraySlice<UInt8>) -> Kind {
        var fields = Reader(content)
        guard let algorithm = fields.next(), algorithm.tag == identifier else { return .unknown }
        let id = Array(algorithm.content)
        if id == ellipticKey {
            let curve = curve(in: content[algorithm.content.endIndex...])
            return curve == nil && fields.next()?.tag == sequence ? .unnamedCurve : .elliptic(curve: curve)
        }
        if id.starts(with: rsaPrefix) { return .rsa }
        return .otherAlgorithm(otherAlgorithms.first { $0.id == id }?.name ?? "a key for another algorithm")
    }

    private static func curve(in content: ArraySlice<UInt8>) -> [UInt8]? {
        var fields = Reader(content)
        guard let field = fields.next(), field.tag == identifier else { return nil }
        return Array(field.content)
    }

    /// Reads one tag, length and content after another. Ends at the first that does not fit.
    private struct Reader {
        private var rest: ArraySlice<UInt8>

        init(_ bytes: ArraySlice<UInt8>) {
            rest = bytes
        }

        mutating func next() -> (tag: UInt8, content: ArraySlice<UInt8>)? {
            guard let tag = rest.popFirst(), let first = rest.popFirst() else { return nil }
            var length = Int(first)
            if first >= 0x80 {
                let count = Int(first & 0x7F)
                guard (1...3).contains(count) else { return nil }
                length = 0
                for _ in 0..<count {
                    guard let byte = rest.popFirst() else { return nil }
                    length = length << 8 | Int(byte)
                }
            }
            guard length <= rest.count else { return nil }
            let content = rest.prefix(length)
            rest = rest.dropFirst(length)
            return (tag, content)
        }
    }
}
