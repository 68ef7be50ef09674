import APNSTransport

extension APNSClient {
    /// Replaces the current key or certificate while pushes continue.
    ///
    /// The client opens one connection with the new credential and sends a push to a device token that cannot exist.
    /// APNs judges the credential before the device token, so its response shows within seconds whether it accepts the
    /// credential, without traffic of yours. (Apple does not document this order; see `Docs/Authentication.md`.) The
    /// push has the default topic, or else the topic of the last push.
    ///
    /// If APNs accepts the credential, all pushes use it from then on. Streams in flight with the old one finish within
    /// `timeouts.drain`, and then its connections close. If APNs refuses it, or if its response says neither, this
    /// method throws, and the old credential stays in use. No connection ever carries the tokens of two keys.
    ///
    /// On a client that has not started, or whose authentication was revoked, the new credential becomes active
    /// immediately.
    ///
    /// ```swift
    /// try await client.replaceAuthentication(.token(keyFile: "AuthKey_7YC9ZLQ8YX.p8", teamID: "ABBM6U9RM5"))
    /// ```
    ///
    /// - Parameters:
    ///   - authentication: The new credential. Its files are read now.
    ///   - time: How long to wait for APNs' verdict; the client probes again after an overload or a lost connection.
    ///     Default 60 s; nil: until APNs accepts or refuses the credential.
    /// - Throws: ``APNSAuthenticationError``: `configuration` if the credential cannot be used at all, `refused` with
    ///   APNs' reason or the TLS alert, `noVerdict` if the time is over, `superseded`, `clientStopped` or `cancelled`.
    ///   The old credential then stays active.
    public func replaceAuthentication(
        _ authentication: APNSAuthentication,
        within time: Duration? = .seconds(60)
    ) async throws(APNSAuthenticationError) {
        if self.runtime.lifecycle.current == .stopped { throw .clientStopped }
        let resolved = try await self.runtime.resolve(authentication)
        try await self.runtime.replaceCredential(with: resolved, within: time)
    }

    /// Reads the authentication's files again and activates their contents as ``replaceAuthentication(_:within:)``
    /// does.
    ///
    /// Files are also checked automatically: see `APNSAuthentication.fileCheckInterval`.
    ///
    /// - Parameter time: As for ``replaceAuthentication(_:within:)``.
    /// - Returns: False if there are no files, or if they hold the same key or certificate as before and it was not
    ///   revoked.
    /// - Throws: ``APNSAuthenticationError``. The old credential then stays active.
    @discardableResult
    public func reloadAuthentication(
        within time: Duration? = .seconds(60)
    ) async throws(APNSAuthenticationError) -> Bool {
        if self.runtime.lifecycle.current == .stopped { throw .clientStopped }
        guard !self.runtime.credentials.latest.resolved.authentication.files.isEmpty else { return false }
        return try await self.runtime.reloadCredential(within: time)
    }

    /// Stops using the key or certificate immediately. Use it for a compromised key, and revoke that key in the
    /// developer portal too.
    ///
    /// Every connection of this client is closed, even with pushes in flight: also that of a candidate, and those of a
    /// credential that was replaced before and still drain. Pushes fail at once with the code `credential` until you call
    /// ``replaceAuthentication(_:within:)``. Waiting pushes are not sent; pushes that were already written end as
    /// `unknown`. When this method returns, these connections are closed.
    public func revokeAuthentication() async {
        await self.runtime.credentials.revoke()
        self.runtime.monitor.signal()
    }
}

/// The key or certificate of a client: ``APNSClientStatus/authentication``.
public struct APNSAuthenticationStatus: Sendable, Hashable {
    /// A readable name, without secrets.
    public var name: String
    /// The key id of the provider token; nil with a certificate.
    public var keyID: String?
    /// The team id of the provider token; nil with a certificate.
    public var teamID: String?
    /// When the client certificate expires (its `notAfter`), in seconds since 1970; nil without one. From 30 days
    /// before that time, the client logs a warning at most once a day.
    public var certificateExpiry: Int64?
    /// The topics in the client certificate: those of Apple's extension 1.2.840.113635.100.6.3.6, or else the subject's
    /// UID.
    public var certificateTopics: [String]
    /// Whether the authentication was revoked, so that nothing is sent.
    public var isRevoked: Bool
    /// The name of the credential that is being probed to replace this one, if any.
    public var candidate: String?

    init(_ session: CredentialSession, _ credentials: CredentialManager) {
        let resolved = session.resolved
        self.name = resolved.name
        self.keyID = resolved.signer?.identifiers.keyID
        self.teamID = resolved.signer?.identifiers.teamID
        self.certificateExpiry = resolved.certificate?.notAfter
        self.certificateTopics = resolved.certificate?.topics ?? []
        self.isRevoked = credentials.isRevoked
        self.candidate = credentials.candidate?.resolved.name
    }
}

/// The reason why a new authentication is not in use.
public struct APNSAuthenticationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of failure. Later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// The authentication cannot be used at all; see `configuration`.
        public static let configuration = Code(rawValue: "configuration")
        /// APNs refused the new credential.
        public static let refused = Code(rawValue: "refused")
        /// APNs neither accepted nor refused the new credential within the given time.
        public static let noVerdict = Code(rawValue: "no-verdict")
        /// Another change of the authentication replaced this one.
        public static let superseded = Code(rawValue: "superseded")
        /// The client has stopped.
        public static let clientStopped = Code(rawValue: "client-stopped")
        /// The calling task was cancelled.
        public static let cancelled = Code(rawValue: "cancelled")
    }

    /// The kind of failure.
    public let code: Code
    /// A readable message. Contains no secret.
    public let message: String
    /// The invalid setting, with the code `configuration`.
    public let configuration: APNSConfigurationError?

    public var description: String { "\(self.message) (\(self.code))" }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
        self.configuration = nil
    }

    init(_ error: APNSConfigurationError) {
        self.code = .configuration
        self.message = error.description
        self.configuration = error
    }

    static func refused(_ name: String, _ words: String) -> Self {
        Self(.refused, "APNs refuses \(name): \(words). The old credential stays in use.")
    }

    static func noVerdict(_ name: String, _ words: String) -> Self {
        Self(.noVerdict, "APNs neither accepted nor refused \(name): \(words). The old credential stays in use.")
    }

    static let superseded = APNSAuthenticationError(
        .superseded,
        "Another change of the authentication replaced this one."
    )
    static let clientStopped = APNSAuthenticationError(.clientStopped, "The client has stopped.")
    static let cancelled = APNSAuthenticationError(.cancelled, "The calling task was cancelled.")
}
