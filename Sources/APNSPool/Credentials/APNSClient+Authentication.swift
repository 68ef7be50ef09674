import HTTP2Wire

extension APNSClient {
    /// Puts another key or certificate in the place of the current one, while pushes go on.
    ///
    /// One connection is opened with it, and one push at a time, of those that are sent anyway, goes over it. When APNs
    /// has accepted a push, all go with the new one; what is in flight with the old one finishes within
    /// `timeouts.drain`, and its connections close. When APNs refuses it, this throws and the old one goes on; the push
    /// that tried it is sent with the old one, and its caller notices nothing. No connection ever carries the tokens of
    /// two keys.
    ///
    /// On a client that does not run yet, or whose authentication was revoked, the new one takes the place at once.
    ///
    /// ```swift
    /// try await client.replaceAuthentication(.token(keyFile: "AuthKey_7YC9ZLQ8YX.p8", teamID: "ABBM6U9RM5"))
    /// ```
    ///
    /// - Parameters:
    ///   - authentication: The new one. Its files are read now.
    ///   - time: How long to wait for a push to be answered. Default 5 minutes; nil: until there is a verdict.
    /// - Throws: ``APNSAuthenticationError``: `configuration` when it cannot be used at all, `refused` with APNs' reason
    ///   or TLS' alert, `noVerdict` when the time is over, `superseded`, `clientStopped`, `cancelled`. The old one then
    ///   goes on.
    public func replaceAuthentication(
        _ authentication: APNSAuthentication,
        within time: Duration? = .seconds(300)
    ) async throws(APNSAuthenticationError) {
        if self.runtime.lifecycle.current == .stopped { throw .clientStopped }
        let resolved = try await self.runtime.credentials.resolve(authentication)
        try await self.runtime.credentials.replace(with: resolved, within: time)
    }

    /// Reads the files of the authentication again, and takes what they hold into use as
    /// ``replaceAuthentication(_:within:)`` does. Files are also looked at by themselves: see
    /// `APNSAuthentication.fileCheckInterval`.
    ///
    /// - Parameter time: As for ``replaceAuthentication(_:within:)``.
    /// - Returns: False when they hold the same key or certificate as before, or there are none.
    /// - Throws: ``APNSAuthenticationError``. The old one goes on.
    @discardableResult
    public func reloadAuthentication(
        within time: Duration? = .seconds(300)
    ) async throws(APNSAuthenticationError) -> Bool {
        if self.runtime.lifecycle.current == .stopped { throw .clientStopped }
        guard !self.runtime.credentials.latest.resolved.authentication.files.isEmpty else { return false }
        return try await self.runtime.credentials.reload(within: time)
    }

    /// Stops using the key or certificate now: every connection is closed, whatever is in flight on it, and pushes fail
    /// at once with the code `credential` until ``replaceAuthentication(_:within:)`` gives another one. For a key that
    /// somebody else has got hold of; revoke it in the developer portal, too.
    ///
    /// Pushes that waited are not sent; those that were written end as `unknown`. When it returns, the connections are
    /// closed.
    public func revokeAuthentication() async {
        await self.runtime.credentials.revoke()
        self.runtime.monitor.signal()
    }
}

/// The key or certificate of a client: ``APNSClientStatus/authentication``.
public struct APNSAuthenticationStatus: Sendable, Hashable {
    /// For people, without secrets.
    public var name: String
    /// Of the provider token; nil with a certificate.
    public var keyID: String?
    /// Of the provider token; nil with a certificate.
    public var teamID: String?
    /// Until when the client certificate is valid (its `notAfter`), in seconds since 1970; nil without one. The log warns
    /// from 30 days before, once a day at the most.
    public var certificateExpiry: Int64?
    /// The topics in the client certificate: those of Apple's extension 1.2.840.113635.100.6.3.6, else the subject's UID.
    public var certificateTopics: [String]
    /// Whether it was revoked: nothing is sent.
    public var isRevoked: Bool
    /// The name of the one that is being tried, if any.
    public var onTrial: String?

    init(_ session: CredentialSession, _ credentials: CredentialManager) {
        let resolved = session.resolved
        self.name = resolved.name
        self.keyID = resolved.signer?.identifiers.keyID
        self.teamID = resolved.signer?.identifiers.teamID
        self.certificateExpiry = resolved.certificate?.notAfter
        self.certificateTopics = resolved.certificate?.topics ?? []
        self.isRevoked = credentials.isRevoked
        self.onTrial = credentials.onTrial?.resolved.name
    }
}

/// Why another authentication is not in use.
public struct APNSAuthenticationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What happened. Later versions may add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// It cannot be used at all; see `configuration`.
        public static let configuration = Code(rawValue: "configuration")
        /// APNs refused it.
        public static let refused = Code(rawValue: "refused")
        /// No push was answered with it in the time given.
        public static let noVerdict = Code(rawValue: "no-verdict")
        /// Another change of the authentication came first.
        public static let superseded = Code(rawValue: "superseded")
        /// The client has stopped.
        public static let clientStopped = Code(rawValue: "client-stopped")
        /// The calling task was cancelled.
        public static let cancelled = Code(rawValue: "cancelled")
    }

    /// What happened.
    public let code: Code
    /// For people. Holds no secret.
    public let message: String
    /// What is wrong with the setting, with the code `configuration`.
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

    static let clientStopped = APNSAuthenticationError(.clientStopped, "The client has stopped.")
    static let cancelled = APNSAuthenticationError(.cancelled, "The calling task was cancelled.")
}
