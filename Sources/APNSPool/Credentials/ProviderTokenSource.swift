/// A source from which several processes get one provider token.
///
/// ECDSA signatures are random, so two processes that sign the same claims make two different tokens. APNs counts a
/// key's tokens across all processes and can respond to more than one in 20 minutes with 429
/// `TooManyProviderTokenUpdates` (pushy#682, apns2#132). A fleet, or a service that restarts often, therefore shares the signed token itself.
/// ``SharedFileTokenSource`` does this for the processes of one machine. Your own source can use any store:
///
/// ```swift
/// struct StoreTokenSource: ProviderTokenSource {
///     func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken {
///         if let token = try await store.read(), request.accepts(token) { return token }
///         return try await store.withLock {
///             // Another process may have been faster.
///             if let token = try await store.read(), request.accepts(token) { return token }
///             let token = try await request.sign()
///             try await store.write(token)
///             return token
///         }
///     }
/// }
/// ```
public protocol ProviderTokenSource: Sendable {
    /// Returns the token to use now.
    ///
    /// The client calls this method when the process has no token, when the current token is due for a refresh, and
    /// when APNs has refused it. Pushes wait for the result within their deadlines, at most 10 s. If it fails or is
    /// late, they use the older token while that one is still usable.
    ///
    /// A client, or a group for all its apps with this key, does not call this method again before the previous call has
    /// returned or was abandoned. A call that takes longer than 30 s is cancelled and abandoned; it should end soon after
    /// its task is cancelled. If an abandoned call returns a token before the next call does, that token is used.
    ///
    /// - Throws: Any error; its description becomes part of the error of pushes that have no token.
    func token(for request: ProviderTokenRequest) async throws -> SharedProviderToken
}

/// A signed provider token and its properties.
public struct SharedProviderToken: Sendable, Hashable {
    /// The token in compact form, which follows `bearer` in the `authorization` field. A secret.
    public let jwt: String
    /// The id of the key that signed it.
    public let keyID: String
    /// The id of the team in its claims.
    public let teamID: String
    /// Its `iat`, in seconds since 1970.
    public let issuedAt: Int64

    /// Creates a token read from a store. Nothing is checked here: see ``ProviderTokenRequest/accepts(_:)``.
    ///
    /// - Parameters:
    ///   - jwt: The token in compact form.
    ///   - keyID: The id of the key that signed it.
    ///   - teamID: The id of the team in its claims.
    ///   - issuedAt: Its `iat`, in seconds since 1970.
    public init(jwt: String, keyID: String, teamID: String, issuedAt: Int64) {
        self.jwt = jwt
        self.keyID = keyID
        self.teamID = teamID
        self.issuedAt = issuedAt
    }
}

extension SharedProviderToken: CustomStringConvertible, CustomReflectable {
    /// A description without the token itself.
    public var description: String {
        "provider token of key \(self.keyID), team \(self.teamID), issued at \(self.issuedAt)"
    }

    /// Shows the description only.
    public var customMirror: Mirror { Mirror(self, children: ["description": self.description]) }
}

/// A request to a ``ProviderTokenSource`` for a token.
public struct ProviderTokenRequest: Sendable {
    /// The key id that the token must name.
    public let keyID: String
    /// The team id that the token must name.
    public let teamID: String
    /// The current time, in seconds since 1970 by this machine's clock.
    public let now: Int64
    /// The age at which a token must be replaced.
    public let refreshAge: Duration

    private let signer: ProviderTokenSigner
    private let refused: String?

    init(signer: ProviderTokenSigner, now: Int64, refreshAge: Duration, refused: String?) {
        self.signer = signer
        self.keyID = signer.identifiers.keyID
        self.teamID = signer.identifiers.teamID
        self.now = now
        self.refreshAge = refreshAge
        self.refused = refused
    }

    /// Whether a token from the store can be used.
    ///
    /// It must be of this key and team, younger than ``refreshAge``, no more than a minute ahead of this machine's
    /// clock, and not the one that APNs has just refused.
    ///
    /// The ids of key and team are not secret, so the token's signature is checked too. With an ``APNSTokenSigner``,
    /// whose public key is not known, this check is not possible.
    public func accepts(_ token: SharedProviderToken) -> Bool {
        self.objection(to: token, tooOld: self.refreshAge) == nil && (self.signer.key?.hasSigned(token.jwt) ?? true)
    }

    /// Makes a new token.
    ///
    /// - Throws: An error with the reason why the signer failed.
    public func sign() async throws -> SharedProviderToken {
        SharedProviderToken(
            jwt: try await self.signer.jwt(issuedAt: self.now),
            keyID: self.keyID,
            teamID: self.teamID,
            issuedAt: self.now
        )
    }

    /// Rejects a token that a source must not return.
    ///
    /// - Parameter current: The token that is due to be replaced.
    func check(_ token: SharedProviderToken, isReplacing current: String?) throws(TokenError) {
        var objection = self.objection(to: token, tooOld: TokenPolicy.usableAge)
        if token.jwt == current { objection = objection ?? "the token that is already in use" }
        // The token is sent in a header field.
        if token.jwt.isEmpty || !token.jwt.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) {
            objection = objection ?? "text that is not a token"
        }
        if objection == nil, let key = self.signer.key, !key.hasSigned(token.jwt) {
            objection = "a token that has the ids of this key, but is signed by another key"
        }
        if let objection { throw TokenError("The token source returned \(objection).") }
    }

    /// What is wrong with the token, to complete a sentence; nil if it can be used.
    private func objection(to token: SharedProviderToken, tooOld limit: Duration) -> String? {
        let age = Duration.seconds(self.now.saturatingDifference(to: token.issuedAt))
        guard token.keyID == self.keyID, token.teamID == self.teamID else {
            return "a token of key \(token.keyID), team \(token.teamID) for key \(self.keyID), team \(self.teamID)"
        }
        if token.jwt == self.refused { return "the token that APNs has just refused" }
        if age >= limit { return "a token that is \(age) old" }
        return age < .zero - TokenPolicy.futureTolerance ? "a token from the future" : nil
    }
}
