import HTTPTypes

/// The endpoints with which a device attests its key. Without App Attest, they respond with 404.
struct AppAttestRoutes: Sendable {
    let host: any GatewayHost
    /// Nil without App Attest.
    let registration: AppAttestRegistration?

    var routes: [GatewayRoute] {
        [
            GatewayRoute(.post, "/webpush/app-attest/challenges", .open) { try await self.challenge($0) },
            GatewayRoute(.post, "/webpush/app-attest/keys", .open) { try await self.attest($0) },
        ]
    }

    private struct ChallengeJSON: Encodable {
        var challenge: String
        /// In seconds since 1970.
        var expires: Int64
    }

    private struct NewKey: GatewayBody {
        enum CodingKeys: String, CodingKey, CaseIterable { case app, environment, key, challenge, attestation }

        static var members: [String] { CodingKeys.allCases.map(\.rawValue) }
        static var hints: [String: String] { ["keyid": "The keyId is key."] }

        var app: String
        var environment: String?
        var key: String
        var challenge: String
        var attestation: String
    }

    private func required() throws -> AppAttestRegistration {
        guard let registration = self.registration else {
            throw GatewayError.notFound("The relay does not use App Attest (webPush.registration).")
        }
        return registration
    }

    private func challenge(_ request: any GatewayRequest) async throws -> GatewayResponse {
        try request.requireNoQuery()
        let challenge = try self.required().challenge()
        return .json(ChallengeJSON(challenge: Base64Text.encode(challenge.bytes), expires: challenge.expiry))
    }

    private func attest(_ request: any GatewayRequest) async throws -> GatewayResponse {
        let registration = try self.required()
        try request.requireNoQuery()
        let new = try await request.json(NewKey.self, atMost: SubscriptionRoutes.maxBodyBytes).value
        let (app, environment) = try self.host.destination(new.app, new.environment)
        guard let id = Base64Text.decode(new.key), id.count == AttestedKey.idCount else {
            throw GatewayError.invalid("key", "expected the key's id, 32 bytes in base64")
        }
        guard let attestation = Base64Text.decode(new.attestation) else {
            throw GatewayError.invalid("attestation", "expected the attestation object in base64")
        }
        try await registration.store(
            attestation,
            of: id,
            challenge: new.challenge,
            path: request.path,
            app: app,
            environment: environment
        )
        return GatewayResponse(.noContent)
    }
}
