import HTTP2Wire

/// How the client proves to APNs who it is: by a provider token signed with a key of the developer account, or by a
/// client certificate.
///
/// A value that only says where the key is. Nothing is read and nothing is checked until a client is made of it; what is
/// wrong is then an ``APNSConfigurationError`` with the setting's name and what to do.
///
/// The rules are those of Apple's "Establishing a token-based connection to APNs" (an EC key on the curve P-256 in a
/// PKCS#8 file, `.p8`; a key id and a team id of 10 characters) and "Establishing a certificate-based connection to
/// APNs".
public struct APNSAuthentication: Sendable {
    enum Credential: Sendable {
        case keyFile(path: String, keyID: String?, teamID: String)
        case pem(text: String, keyID: String, teamID: String)
        case bytes([UInt8], keyID: String, teamID: String)
        case signer(any APNSTokenSigner, keyID: String, teamID: String)
        case certificate(CertificateInput)
        case withoutToken
    }

    let credential: Credential

    /// How long one provider token is used before the next one is signed: 20 to 60 minutes, by default 50.
    ///
    /// Counted from the token's first use. Whatever is set here, a token 55 minutes old is replaced, for APNs refuses
    /// those of more than an hour, and none is replaced within 20 minutes of its first use, for APNs refuses that too.
    public var tokenRefreshInterval: Duration = .seconds(50 * 60)

    /// Where the signed provider token is shared with other processes. Default nil: this client signs its own.
    public var tokenSource: (any ProviderTokenSource)?

    /// How often files of keys and certificates are looked at; one that has changed is read, tried and taken into use as
    /// by ``APNSClient/reloadAuthentication(within:)``. Default 60 s, at least 1 s; nil: never.
    public var fileCheckInterval: Duration? = .seconds(60)

    private init(_ credential: Credential) {
        self.credential = credential
    }

    // MARK: Provider tokens

    /// A provider token signed with a key in a file, as the developer portal gives it.
    ///
    /// - Parameters:
    ///   - keyFile: The path of the `.p8` file, at most 64 KiB. `~` is not expanded.
    ///   - keyID: The key's id. It may be left out if the file has the name that the portal gave it,
    ///     `AuthKey_XXXXXXXXXX.p8`, or is a symbolic link to one that has; if both are there, they must agree.
    ///   - teamID: The id of the developer account's team.
    public static func token(keyFile: String, keyID: String? = nil, teamID: String) -> APNSAuthentication {
        APNSAuthentication(.keyFile(path: keyFile, keyID: keyID, teamID: teamID))
    }

    /// A provider token signed with a key in PEM form, as an environment variable or a secret store holds it.
    ///
    /// - Parameters:
    ///   - privateKeyPEM: The text of the `.p8` file. Its line ends may be written as `\n` or be lost, and the whole
    ///     may be encoded in base64. A key of swift-crypto gives this text as `pemRepresentation`.
    ///   - keyID: The key's id, 10 characters.
    ///   - teamID: The id of the developer account's team, 10 characters.
    public static func token(privateKeyPEM: String, keyID: String, teamID: String) -> APNSAuthentication {
        APNSAuthentication(.pem(text: privateKeyPEM, keyID: keyID, teamID: teamID))
    }

    /// A provider token signed with a key of which the program has the bytes.
    ///
    /// - Parameters:
    ///   - privateKeyBytes: What is in the `.p8` file, or the same key in DER (PKCS#8 or SEC 1).
    ///   - keyID: The key's id, 10 characters.
    ///   - teamID: The id of the developer account's team, 10 characters.
    public static func token(privateKeyBytes: [UInt8], keyID: String, teamID: String) -> APNSAuthentication {
        APNSAuthentication(.bytes(privateKeyBytes, keyID: keyID, teamID: teamID))
    }

    /// A provider token signed somewhere else: in a hardware module, in a cloud's key store.
    ///
    /// - Parameters:
    ///   - signer: Signs. It is asked first when the first push is sent.
    ///   - keyID: The key's id, 10 characters.
    ///   - teamID: The id of the developer account's team, 10 characters.
    public static func token(signer: any APNSTokenSigner, keyID: String, teamID: String) -> APNSAuthentication {
        APNSAuthentication(.signer(signer, keyID: keyID, teamID: teamID))
    }

    // MARK: Certificates

    /// A client certificate in a PEM file.
    ///
    /// - Parameters:
    ///   - certificateFile: The path of the certificate (PEM, with its chain if it has one; or DER), at most 64 KiB.
    ///   - keyFile: The path of its private key (PEM or DER). Nil: it is in the certificate's file, too.
    ///   - passphrase: Of the key, if it is encrypted.
    public static func certificate(
        certificateFile: String,
        keyFile: String? = nil,
        passphrase: String? = nil
    ) -> APNSAuthentication {
        APNSAuthentication(.certificate(.files(certificateFile, key: keyFile, passphrase: passphrase)))
    }

    /// A client certificate in PEM form, as an environment variable or a secret store holds it.
    ///
    /// - Parameters:
    ///   - certificatePEM: The certificate, with its chain if it has one. Line ends may be written as `\n` or be lost,
    ///     and the whole may be encoded in base64.
    ///   - privateKeyPEM: Its private key, in the same ways.
    ///   - passphrase: Of the key, if it is encrypted.
    public static func certificate(
        certificatePEM: String,
        privateKeyPEM: String,
        passphrase: String? = nil
    ) -> APNSAuthentication {
        .certificate(
            certificateBytes: Array(certificatePEM.utf8),
            privateKeyBytes: Array(privateKeyPEM.utf8),
            passphrase: passphrase
        )
    }

    /// A client certificate of which the program has the bytes.
    ///
    /// - Parameters:
    ///   - certificateBytes: The certificate (PEM, with its chain if it has one; or DER).
    ///   - privateKeyBytes: Its private key (PEM or DER).
    ///   - passphrase: Of the key, if it is encrypted.
    public static func certificate(
        certificateBytes: [UInt8],
        privateKeyBytes: [UInt8],
        passphrase: String? = nil
    ) -> APNSAuthentication {
        APNSAuthentication(
            .certificate(.bytes(certificateBytes, key: privateKeyBytes, passphrase: passphrase))
        )
    }

    /// A client certificate with its key in a PKCS#12 file, as Keychain Access exports it.
    ///
    /// - Parameters:
    ///   - pkcs12File: The path of the `.p12` file, at most 64 KiB. One that is encrypted with RC2 (as older versions of
    ///     Keychain Access and OpenSSL did) cannot be read by OpenSSL 3; the error says how to convert it.
    ///   - passphrase: What it was exported with.
    public static func certificate(pkcs12File: String, passphrase: String) -> APNSAuthentication {
        APNSAuthentication(.certificate(.pkcs12File(pkcs12File, passphrase: passphrase)))
    }

    /// A client certificate with its key in the bytes of a PKCS#12 file.
    ///
    /// - Parameters:
    ///   - pkcs12Bytes: What is in the `.p12` file.
    ///   - passphrase: What it was exported with.
    public static func certificate(pkcs12Bytes: [UInt8], passphrase: String) -> APNSAuthentication {
        APNSAuthentication(.certificate(.pkcs12(pkcs12Bytes, passphrase: passphrase)))
    }

    /// No provider token: requests carry no `authorization` field. For test servers that do not ask for one; APNs itself
    /// answers such requests with 403 `MissingProviderToken`.
    public static let withoutToken = APNSAuthentication(.withoutToken)

    // MARK: Reading

    /// Reads and checks everything.
    ///
    /// Blocks while files are read. May be called again to read a file that has changed.
    ///
    /// - Parameter wallNow: Seconds since 1970, for the certificate's validity.
    /// - Throws: What is wrong with the first wrong setting, and what to do.
    func resolve(wallNow: Int64) throws(APNSConfigurationError) -> ResolvedAuthentication {
        let policy = try self.tokenPolicy()
        if let interval = self.fileCheckInterval, interval < .seconds(1) {
            throw APNSConfigurationError(
                .outOfRange,
                setting: "authentication.fileCheckInterval",
                message: "\(interval) is less than 1 s. Leave it out for the usual 60 s."
            )
        }
        var resolved = ResolvedAuthentication(authentication: self, policy: policy)
        resolved.stamps = self.files.map(FileStamp.init(of:))
        if case .certificate(let input) = self.credential {
            resolved.certificate = try input.read(wallNow: wallNow)
        } else {
            resolved.signer = try self.resolve()
        }
        return resolved
    }

    /// What signs provider tokens; `nil` without a key.
    func resolve() throws(APNSConfigurationError) -> ProviderTokenSigner? {
        _ = try self.tokenPolicy()
        switch self.credential {
        case .withoutToken, .certificate:
            return nil
        case .signer(let signer, let keyID, let teamID):
            let ids = try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: nil)
            return ProviderTokenSigner(signer: signer, identifiers: ids)
        case .pem(let text, let keyID, let teamID):
            let key = try PrivateKeyText.key(in: Array(text.utf8), setting: "authentication.privateKeyPEM")
            let ids = try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: nil)
            return ProviderTokenSigner(key: key, identifiers: ids)
        case .bytes(let bytes, let keyID, let teamID):
            let key = try PrivateKeyText.key(in: bytes, setting: "authentication.privateKeyBytes")
            let ids = try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: nil)
            return ProviderTokenSigner(key: key, identifiers: ids)
        case .keyFile(let path, let keyID, let teamID):
            let text = try KeyFile.read(path, setting: "authentication.keyFile")
            let key = try PrivateKeyText.key(in: text, setting: "authentication.keyFile")
            let ids = try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: KeyFile.nameWithKeyID(path))
            return ProviderTokenSigner(key: key, identifiers: ids)
        }
    }

    /// The files that a change of the credential may come from.
    var files: [String] {
        switch self.credential {
        case .keyFile(let path, _, _): [path]
        case .certificate(let input): input.paths
        default: []
        }
    }

    /// A provider token signed now, for tools; nil without a key.
    ///
    /// - Parameter issuedAt: seconds since 1970.
    /// - Throws: `APNSConfigurationError`, as the client's initialiser does; the signer's error.
    package func providerToken(issuedAt: Int64) async throws -> String? {
        guard let signer = try self.resolve() else { return nil }
        guard let tokenSource else { return try await signer.jwt(issuedAt: issuedAt) }
        let request = ProviderTokenRequest(
            signer: signer,
            now: issuedAt,
            refreshAge: min(try self.tokenPolicy().refreshInterval, TokenPolicy.refreshAge),
            refused: nil
        )
        return try await tokenSource.token(for: request).jwt
    }

    /// The rules of the token's life, with the refresh interval checked.
    func tokenPolicy() throws(APNSConfigurationError) -> TokenPolicy {
        try TokenPolicy(refreshInterval: self.tokenRefreshInterval)
    }
}

extension APNSAuthentication: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Names the key and the team, or the certificate's file; never the key itself nor a passphrase.
    public var description: String {
        switch self.credential {
        case .keyFile(let path, let keyID, let teamID):
            "provider token (key file \(path), key id \(keyID ?? "from the file's name"), team id \(teamID))"
        case .pem(_, let keyID, let teamID), .bytes(_, let keyID, let teamID),
            .signer(_, let keyID, let teamID):
            "provider token (key id \(keyID), team id \(teamID))"
        case .certificate(let input):
            input.paths.isEmpty
                ? "client certificate" : "client certificate (\(input.paths.joined(separator: ", ")))"
        case .withoutToken:
            "no provider token"
        }
    }

    public var debugDescription: String { self.description }

    /// Shows the description only, so that `dump` and test frameworks do not print the key.
    public var customMirror: Mirror {
        Mirror(self, children: ["description": self.description])
    }
}
