import Crypto

/// The app whose keys are accepted.
public struct AppAttestApp: Sendable, Hashable {
    /// The app ID: the prefix, which is almost always the team ID, a dot, and the bundle ID.
    public var id: String
    /// Whether keys of App Attest's development environment are accepted, as builds from Xcode have them. Keys of the
    /// production environment are always accepted.
    public var allowsDevelopment: Bool

    public init(id: String, allowsDevelopment: Bool = false) {
        self.id = id
        self.allowsDevelopment = allowsDevelopment
    }

    private static let production = Array("appattest".utf8) + Array(repeating: 0, count: 7)
    private static let development = Array("appattestdevelop".utf8)

    /// Whether the hash in evidence is that of this app.
    func hasHash(_ hash: [UInt8]) -> Bool { hash == Array(SHA256.hash(data: Array(self.id.utf8))) }

    /// Whether keys of an environment are accepted.
    func accepts(aaguid: [UInt8]) -> Bool {
        aaguid == Self.production || (self.allowsDevelopment && aaguid == Self.development)
    }
}
