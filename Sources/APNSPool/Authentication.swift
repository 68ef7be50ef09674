public import Crypto

/// How the client proves to APNs who it is: by a provider token signed with a key of the developer account.
///
/// A value that only says where the key is. Nothing is read and nothing is checked until a client is made of it; what is
/// wrong is then an ``APNSConfigurationError`` with the setting's name and what to do.
///
/// The rules are those of Apple's "Establishing a token-based connection to APNs": an EC key on the curve P-256 in a
/// PKCS#8 file (`.p8`), a key id of 10 characters and a team id of 10 characters.
public struct APNSAuthentication: Sendable {
    enum Credential: Sendable {
        case keyFile(path: String, keyID: String?, teamID: String)
        case pem(text: String, keyID: String, teamID: String)
        case key(P256.Signing.PrivateKey, keyID: String, teamID: String)
        case withoutToken
    }

    let credential: Credential

    /// How long one provider token is used before the next one is signed: 20 to 60 minutes, by default 50.
    ///
    /// Counted from the token's first use. Whatever is set here, a token 55 minutes old is replaced, for APNs refuses
    /// those of more than an hour, and none is replaced within 20 minutes of its first use, for APNs refuses that too.
    public var tokenRefreshInterval: Duration = .seconds(50 * 60)

    private init(_ credential: Credential) {
        self.credential = credential
    }

    /// A provider token signed with a key in a file, as the developer portal gives it.
    ///
    /// - Parameters:
    ///   - keyFile: The path of the `.p8` file, at most 64 KiB. `~` is not expanded.
    ///   - keyID: The key's id. It may be left out if the file has the name that the portal gave it,
    ///     `AuthKey_XXXXXXXXXX.p8`; if both are there, they must agree.
    ///   - teamID: The id of the developer account's team.
    public static func token(keyFile: String, keyID: String? = nil, teamID: String) -> APNSAuthentication {
        APNSAuthentication(.keyFile(path: keyFile, keyID: keyID, teamID: teamID))
    }

    /// A provider token signed with a key in PEM form, as an environment variable or a secret store holds it.
    ///
    /// - Parameters:
    ///   - privateKeyPEM: The text of the `.p8` file. Its line ends may be written as `\n` or be lost, and the whole
    ///     may be encoded in base64.
    ///   - keyID: The key's id, 10 characters.
    ///   - teamID: The id of the developer account's team, 10 characters.
    public static func token(privateKeyPEM: String, keyID: String, teamID: String) -> APNSAuthentication {
        APNSAuthentication(.pem(text: privateKeyPEM, keyID: keyID, teamID: teamID))
    }

    /// A provider token signed with a key that the program already holds.
    ///
    /// - Parameters:
    ///   - privateKey: The key.
    ///   - keyID: The key's id, 10 characters.
    ///   - teamID: The id of the developer account's team, 10 characters.
    public static func token(
        privateKey: P256.Signing.PrivateKey,
        keyID: String,
        teamID: String
    ) -> APNSAuthentication {
        APNSAuthentication(.key(privateKey, keyID: keyID, teamID: teamID))
    }

    /// No provider token: requests carry no `authorization` field. For test servers that do not ask for one; APNs itself
    /// answers such requests with 403 `MissingProviderToken`, unless the connection has a client certificate.
    public static let withoutToken = APNSAuthentication(.withoutToken)

    /// Reads and checks everything.
    ///
    /// Blocks while the key file is read. May be called again to read a file that has changed.
    ///
    /// - Returns: What signs provider tokens; `nil` for ``withoutToken``.
    /// - Throws: What is wrong with the first wrong setting, and what to do.
    func resolve() throws(APNSConfigurationError) -> ProviderTokenSigner? {
        _ = try tokenPolicy()
        switch credential {
        case .withoutToken:
            return nil
        case .key(let key, let keyID, let teamID):
            let ids = try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: nil)
            return ProviderTokenSigner(privateKey: key, identifiers: ids)
        case .pem(let text, let keyID, let teamID):
            let key = try PrivateKeyText.key(in: Array(text.utf8), setting: "authentication.privateKeyPEM")
            let ids = try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: nil)
            return ProviderTokenSigner(privateKey: key, identifiers: ids)
        case .keyFile(let path, let keyID, let teamID):
            let text = try KeyFile.read(path, setting: "authentication.keyFile")
            let key = try PrivateKeyText.key(in: text, setting: "authentication.keyFile")
            let ids = try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: path)
            return ProviderTokenSigner(privateKey: key, identifiers: ids)
        }
    }

    /// A provider token signed now, for tools; nil without a key.
    ///
    /// - Parameter issuedAt: seconds since 1970.
    /// - Throws: `APNSConfigurationError`, as the client's initialiser does; the signer's error.
    package func providerToken(issuedAt: Int64) async throws -> String? {
        try await resolve()?.jwt(issuedAt: issuedAt)
    }

    /// The rules of the token's life, with the refresh interval checked.
    func tokenPolicy() throws(APNSConfigurationError) -> TokenPolicy {
        try TokenPolicy(refreshInterval: tokenRefreshInterval)
    }
}

extension APNSAuthentication: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Names the key and the team, never the key itself.
    public var description: String {
        switch credential {
        case .keyFile(let path, let keyID, let teamID):
            "provider token (key file \(path), key id \(keyID ?? "from the file's name"), team id \(teamID))"
        case .pem(_, let keyID, let teamID), .key(_, let keyID, let teamID):
            "provider token (key id \(keyID), team id \(teamID))"
        case .withoutToken:
            "no provider token"
        }
    }

    public var debugDescription: String { description }

    /// Shows the description only, so that `dump` and test frameworks do not print the key.
    public var customMirror: Mirror {
        Mirror(self, children: ["description": description])
    }
}
