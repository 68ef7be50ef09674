import HTTPTypes
import PushQueue

/// Devices register themselves with keys that App Attest has attested. An attested key owns the subscriptions that it
/// registers.
struct AppAttestRegistration: RegistrationVerifier {
    /// How often a key is read again because another request has changed it at the same time.
    private static let attempts = 5

    let host: any GatewayHost
    let verifier: AppAttestVerifier
    let challenges: AppAttestChallenges
    let queue: any PushQueue
    let clock: any QueueClock

    var access: GatewayRoute.Access { .open }

    private var now: Int64 { self.clock.now.millisecondsSince1970 / 1_000 }

    /// A new challenge, and when it expires, in seconds since 1970.
    func challenge() -> (bytes: [UInt8], expiry: Int64) {
        let now = self.now
        return (self.challenges.issue(now: now), now + AppAttestChallenges.lifetime)
    }

    // MARK: Keys

    /// Verifies the attestation of a new key, and stores the key.
    ///
    /// - Parameters:
    ///   - attestation: the attestation object.
    ///   - id: the key's id.
    ///   - challenge: the text of the challenge.
    ///   - path: the path of the request, which the device has signed.
    ///   - app: the app's name in the settings.
    ///   - environment: an environment of the app.
    /// - Throws: ``GatewayError``: `conflict` if the key is stored already.
    func store(
        _ attestation: [UInt8],
        of id: [UInt8],
        challenge: String,
        path: String,
        app: GatewayApp,
        environment: String
    ) async throws {
        guard let attested = app.attested(environment) else { throw Self.notAttested(app.name) }
        let key: AttestedKey
        do throws(AppAttestError) {
            _ = try self.challenges.challenge(Base64Text.decode(challenge) ?? [], now: self.now)
            let request = AppAttestRequest(method: "POST", path: path, challenge: challenge)
            key = try await self.verifier.key(
                id,
                attestedBy: attestation,
                clientDataHash: request.clientDataHash,
                app: attested,
                now: self.now
            )
        } catch {
            throw GatewayError(error)
        }
        let stored = StoredAttestedKey(app: app.name, environment: environment, key: key, usedAt: self.now)
        try await self.queue.requireRoom()
        let isNew = try await AttestedKeyStore(queue: self.queue).store(stored, Base64Text.encode(id))
        guard isNew else {
            throw GatewayError(.conflict, "This key is attested already. Use it, or attest a new one.")
        }
    }

    private static func notAttested(_ app: String) -> GatewayError {
        GatewayError(
            .forbidden,
            "The relay has no app ID prefix for the app \(printable(app)); its operator sets app.\(printable(app)).appIDPrefix."
        )
    }

    // MARK: Requests

    func verify(_ request: any GatewayRequest, body: [UInt8], addsSubscription: Bool) async throws -> Registrant {
        let assertion = try AssertionHeader(request.headers)
        let signed = AppAttestRequest(
            method: request.method.rawValue,
            path: request.path,
            challenge: assertion.challenge,
            body: body
        )
        for _ in 0..<Self.attempts {
            let found = try await AttestedKeyStore(queue: self.queue).key(assertion.key)
            guard let (old, bytes) = found else {
                throw AssertionHeader.error("The key is not attested here. Attest a new one.")
            }
            guard let app = self.host.app(old.app)?.attested(old.environment) else {
                throw Self.notAttested(old.app)
            }
            var new = old
            do throws(AppAttestError) {
                let challenge = try self.challenges.challenge(
                    Base64Text.decode(assertion.challenge) ?? [],
                    now: self.now
                )
                let counter = try self.verifier.counter(
                    of: assertion.object,
                    by: old.key,
                    clientDataHash: signed.clientDataHash,
                    app: app
                )
                try new.key.use(counter: counter, challenge: challenge, now: self.now)
            } catch {
                throw GatewayError(error)
            }
            new.usedAt = self.now
            if addsSubscription { new.subscriptions += 1 }
            let store = AttestedKeyStore(queue: self.queue)
            guard try await store.exchange(assertion.key, bytes, for: new) else { continue }
            return .device(key: assertion.key, app: old.app, environment: old.environment)
        }
        throw GatewayError(
            .unavailable,
            "Too many requests of this key at the same time. Nothing was changed; try again.",
            retryAfter: 1
        )
    }
}

/// The header field `authorization: AppAttest key=…, challenge=…, assertion=…`.
private struct AssertionHeader {
    private static let scheme = "AppAttest"

    /// The key's id in base64url.
    var key: String
    /// The text of the challenge.
    var challenge: String
    /// The assertion object.
    var object: [UInt8]

    init(_ headers: HTTPFields) throws {
        let values = headers[values: .authorization]
        let words = values.first?.split(separator: " ", maxSplits: 1) ?? []
        guard values.count == 1, words.count == 2, words[0].lowercased() == Self.scheme.lowercased() else {
            throw Self.malformed
        }
        var parts: [String: String] = [:]
        for part in words[1].split(separator: ",") {
            let pair = part.drop { $0 == " " || $0 == "\t" }.split(separator: "=", maxSplits: 1)
            guard pair.count == 2, parts[String(pair[0])] == nil else { throw Self.malformed }
            parts[String(pair[0])] = pair[1].filter { $0 != "\"" && $0 != " " && $0 != "\t" }
        }
        guard let key = parts["key"].flatMap(Base64Text.decode), key.count == AttestedKey.idCount,
            let challenge = parts["challenge"], let object = parts["assertion"].flatMap(Base64Text.decode)
        else { throw Self.malformed }
        self.key = Base64Text.encode(key)
        self.challenge = challenge
        self.object = object
    }

    static func error(_ message: String) -> GatewayError {
        var error = GatewayError(.unauthorized, message)
        error.scheme = Self.scheme
        return error
    }

    private static let malformed = Self.error(
        "The request needs the header authorization: AppAttest key=…, challenge=…, assertion=…, each in base64url."
    )
}

extension GatewayError {
    /// The error for refused evidence.
    init(_ error: AppAttestError) {
        switch error.code {
        case .unknownChallenge, .expiredChallenge, .repeatedChallenge: self = AssertionHeader.error(error.message)
        case .tooManyRequests:
            self = .rateLimited(.seconds(AppAttestChallenges.lifetime), error.message)
        default: self.init(.forbidden, error.message)
        }
    }
}
