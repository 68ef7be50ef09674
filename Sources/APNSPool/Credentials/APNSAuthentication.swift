import APNSTransport

/// How the client authenticates to APNs: with a provider token signed by a key of the developer account, or with a
/// client certificate.
///
/// The value only names the source of the key. Nothing is read or checked until you create a client with it. Mistakes
/// are then reported as an ``APNSConfigurationError`` that names the setting and the remedy.
///
/// ```swift
/// let fromFile = APNSAuthentication.token(keyFile: "AuthKey_9UC9ZLQ8YW.p8", teamID: "ABBM6U9RM5")
/// let fromText = APNSAuthentication.token(privateKeyPEM: key, keyID: "9UC9ZLQ8YW", teamID: "ABBM6U9RM5")
/// ```
///
/// The rules come from Apple's "Establishing a token-based connection to APNs" (an EC key on the curve P-256 in a
/// PKCS#8 file, `.p8`; a key id and a team id of 10 characters) and "Establishing a certificate-based connection to
/// APNs".
public struct APNSAuthentication: Sendable {
    enum Credential: Sendable {
        case key(CredentialInput, keyID: String?, teamID: String)
        case signer(UserSigner, keyID: String, teamID: String)
        case certificate(CertificateInput)
        case withoutToken
    }

    let credential: Credential

    /// How long a provider token is used before the next one is signed. Default 50 minutes; 20 minutes to an hour.
    ///
    /// The interval starts at the token's first use. Two limits of APNs override it: a token is replaced at the age of
    /// 55 minutes, because APNs refuses tokens older than one hour, and a token that APNs accepts is not replaced
    /// within 20 minutes of its first use, because APNs refuses that too. The first use of a token that `tokenSource`
    /// or a group shares counts as the time of its signature.
    public var tokenRefreshInterval: Duration = .seconds(50 * 60)

    /// The source that shares the signed provider token with other processes. Default nil: this client signs its own.
    public var tokenSource: (any ProviderTokenSource)?

    /// How often the key and certificate files are checked for changes. Default 60 s; 1 s to a day; nil: never.
    ///
    /// A changed file is read, probed and activated as by ``APNSClient/reloadAuthentication(within:)``. Without a
    /// verdict, a warning says so, and it is tried again at the next check; a refused one is tried once more.
    public var fileCheckInterval: Duration? = .seconds(60)
    static let fileCheckLimits = Duration.seconds(1)...Duration.seconds(86_400)

    private init(_ credential: Credential) {
        self.credential = credential
    }

    // MARK: Provider tokens

    /// A provider token signed with a key file from the developer portal.
    ///
    /// - Parameters:
    ///   - keyFile: The path of the `.p8` file, at most 64 KiB. `~` is not expanded.
    ///   - keyID: The key's id. You can omit it if the file, or the file that a symbolic link points to, has the name
    ///     that the portal gave it, `AuthKey_XXXXXXXXXX.p8`. If the name contains a key id, this parameter must agree
    ///     with it.
    ///   - teamID: The id of the developer account's team.
    public static func token(keyFile: String, keyID: String? = nil, teamID: String) -> APNSAuthentication {
        APNSAuthentication(
            .key(.file(keyFile, ".p8 file", setting: "keyFile"), keyID: keyID, teamID: teamID)
        )
    }

    /// A provider token signed with a key in PEM form, as stored in an environment variable or a secret store.
    ///
    /// - Parameters:
    ///   - privateKeyPEM: The text of the `.p8` file. Line ends may be written as `\n` or be missing, and the whole
    ///     text may be base64-encoded. For a swift-crypto key, pass its `pemRepresentation`.
    ///   - keyID: The key's id, 10 characters.
    ///   - teamID: The id of the developer account's team, 10 characters.
    public static func token(privateKeyPEM: String, keyID: String, teamID: String) -> APNSAuthentication {
        APNSAuthentication(
            .key(.bytes(Array(privateKeyPEM.utf8), setting: "privateKeyPEM"), keyID: keyID, teamID: teamID)
        )
    }

    /// A provider token signed with a key that the program holds as bytes.
    ///
    /// - Parameters:
    ///   - privateKeyBytes: The contents of the `.p8` file, or the same key in DER (PKCS#8 or SEC 1).
    ///   - keyID: The key's id, 10 characters.
    ///   - teamID: The id of the developer account's team, 10 characters.
    public static func token(privateKeyBytes: [UInt8], keyID: String, teamID: String) -> APNSAuthentication {
        APNSAuthentication(
            .key(.bytes(privateKeyBytes, setting: "privateKeyBytes"), keyID: keyID, teamID: teamID)
        )
    }

    /// A provider token signed elsewhere: in a hardware module or a cloud key store.
    ///
    /// - Parameters:
    ///   - signer: Signs the token. It is first called when the client starts.
    ///   - keyID: The key's id, 10 characters.
    ///   - teamID: The id of the developer account's team, 10 characters.
    public static func token(signer: any APNSTokenSigner, keyID: String, teamID: String) -> APNSAuthentication {
        APNSAuthentication(.signer(UserSigner(signer), keyID: keyID, teamID: teamID))
    }

    // MARK: Certificates

    /// A client certificate in a PEM file.
    ///
    /// - Parameters:
    ///   - certificateFile: The path of the certificate (PEM, with its chain if it has one; or DER), at most 64 KiB.
    ///   - keyFile: The path of its private key (PEM or DER). Nil: the key is in the certificate's file.
    ///   - passphrase: The passphrase of the key, if it is encrypted.
    public static func certificate(
        certificateFile: String,
        keyFile: String? = nil,
        passphrase: String? = nil
    ) -> APNSAuthentication {
        .certificate(
            .file(certificateFile, "certificate's file", setting: "certificateFile"),
            key: keyFile.map { .file($0, "certificate's key file", setting: "keyFile") },
            passphrase: passphrase
        )
    }

    /// A client certificate in PEM form, as stored in an environment variable or a secret store.
    ///
    /// - Parameters:
    ///   - certificatePEM: The certificate, with its chain if it has one. Line ends may be written as `\n` or be
    ///     missing, and the whole text may be base64-encoded.
    ///   - privateKeyPEM: Its private key, in the same formats.
    ///   - passphrase: The passphrase of the key, if it is encrypted.
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

    /// A client certificate that the program holds as bytes.
    ///
    /// - Parameters:
    ///   - certificateBytes: The certificate (PEM, with its chain if it has one; or DER).
    ///   - privateKeyBytes: Its private key (PEM or DER).
    ///   - passphrase: The passphrase of the key, if it is encrypted.
    public static func certificate(
        certificateBytes: [UInt8],
        privateKeyBytes: [UInt8],
        passphrase: String? = nil
    ) -> APNSAuthentication {
        .certificate(
            .bytes(certificateBytes, setting: "certificateBytes"),
            key: .bytes(privateKeyBytes, setting: "privateKeyBytes"),
            passphrase: passphrase
        )
    }

    /// A client certificate with its key in a PKCS#12 file, as Keychain Access exports it.
    ///
    /// - Parameters:
    ///   - pkcs12File: The path of the `.p12` file, at most 64 KiB. OpenSSL 3 cannot read a file encrypted with RC2,
    ///     which older versions of Keychain Access and OpenSSL used; the error explains how to convert it.
    ///   - passphrase: The passphrase that the file was exported with.
    public static func certificate(pkcs12File: String, passphrase: String) -> APNSAuthentication {
        .certificate(.file(pkcs12File, ".p12 file", setting: "pkcs12File"), passphrase: passphrase, isPKCS12: true)
    }

    /// A client certificate with its key in the bytes of a PKCS#12 file.
    ///
    /// - Parameters:
    ///   - pkcs12Bytes: The contents of the `.p12` file.
    ///   - passphrase: The passphrase that the file was exported with.
    public static func certificate(pkcs12Bytes: [UInt8], passphrase: String) -> APNSAuthentication {
        .certificate(.bytes(pkcs12Bytes, setting: "pkcs12Bytes"), passphrase: passphrase, isPKCS12: true)
    }

    private static func certificate(
        _ certificate: CredentialInput,
        key: CredentialInput? = nil,
        passphrase: String?,
        isPKCS12: Bool = false
    ) -> APNSAuthentication {
        let input = CertificateInput(certificate: certificate, key: key, passphrase: passphrase, isPKCS12: isPKCS12)
        return APNSAuthentication(.certificate(input))
    }

    /// No provider token: requests carry no `authorization` field.
    ///
    /// Use it for test servers that require no token. APNs itself rejects such requests with 403
    /// `MissingProviderToken`.
    public static let withoutToken = APNSAuthentication(.withoutToken)

    // MARK: Reading

    /// Reads and checks all settings.
    ///
    /// Blocks while files are read. You can call it again to read a file that has changed.
    ///
    /// - Parameter wallNow: Seconds since 1970, to check the certificate's validity.
    /// - Throws: An error about the first invalid setting, with the remedy.
    func resolve(wallNow: Int64) throws(APNSConfigurationError) -> ResolvedAuthentication {
        if let interval = self.fileCheckInterval, !Self.fileCheckLimits.contains(interval) {
            throw APNSConfigurationError(
                .outOfRange,
                setting: "authentication.fileCheckInterval",
                message: "\(interval) is not between 1 s and a day. Leave it out for the default of 60 s."
            )
        }
        if let refusal = (self.tokenSource as? SharedFileTokenSource)?.refusal { throw refusal }
        var resolved = ResolvedAuthentication(authentication: self)
        if case .certificate(let input) = self.credential {
            resolved.certificate = try input.read(wallNow: wallNow)
        } else {
            resolved.signer = try self.makeSigner()
        }
        return resolved
    }

    /// The signer of provider tokens; `nil` without a key.
    func makeSigner() throws(APNSConfigurationError) -> ProviderTokenSigner? {
        guard TokenPolicy.refreshLimits.contains(self.tokenRefreshInterval) else {
            throw APNSConfigurationError(
                .outOfRange,
                setting: "authentication.tokenRefreshInterval",
                message: "\(self.tokenRefreshInterval) is not between 20 and 60 minutes, the limits that APNs sets. "
                    + "Leave it out for the default of 50 minutes."
            )
        }
        switch self.credential {
        case .withoutToken, .certificate:
            return nil
        case .signer(let signer, let keyID, let teamID):
            let ids = try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: nil)
            return ProviderTokenSigner(signer: signer, identifiers: ids)
        case .key(let input, let keyID, let teamID):
            let key = try PrivateKeyText.key(in: input.read(), setting: input.setting)
            let ids = try TokenIdentifiers(keyID: keyID, teamID: teamID, keyFile: input.path)
            return ProviderTokenSigner(key: key, identifiers: ids)
        }
    }

    /// The files to watch for a changed credential.
    var files: [String] {
        switch self.credential {
        case .key(let input, _, _): input.path.map { [$0] } ?? []
        case .certificate(let input): input.paths
        case .signer, .withoutToken: []
        }
    }

    /// A provider token for tools: from `tokenSource` if there is one, otherwise signed now. Nil without a key.
    ///
    /// - Parameter issuedAt: Seconds since 1970.
    /// - Throws: `APNSConfigurationError`, as the client's initializer does, or the signer's error.
    package func providerToken(issuedAt: Int64) async throws -> String? {
        guard let signer = try self.makeSigner() else { return nil }
        guard let tokenSource else { return try await signer.jwt(issuedAt: issuedAt) }
        let request = ProviderTokenRequest(
            signer: signer,
            now: issuedAt,
            refreshAge: min(self.tokenRefreshInterval, TokenPolicy.refreshAge),
            refused: nil
        )
        return try await tokenSource.token(for: request).jwt
    }
}

extension APNSAuthentication: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Names the key and the team, or the certificate's file. Never includes the key or a passphrase.
    public var description: String {
        switch self.credential {
        case .key(let input, let keyID, let teamID):
            "provider token (\(input.path.map { "key file \($0), " } ?? "")"
                + "key id \(keyID ?? "from the file's name"), team id \(teamID))"
        case .signer(_, let keyID, let teamID):
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
