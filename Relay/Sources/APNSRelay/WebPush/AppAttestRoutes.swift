import AppAttest
import HTTPTypes
import Hummingbird
import ServiceLifecycle
import WebPush

/// The endpoints with which a device attests its key. Without App Attest, they respond with 404.
struct AppAttestRoutes: Sendable {
    let live: LiveSettings
    /// Nil without App Attest.
    let registration: AppAttestRegistration?
    let reader: RequestBodyReader

    var routes: [APIRoute] {
        [
            APIRoute(.post, "/webpush/app-attest/challenges", .open) { try await self.challenge($0) },
            APIRoute(.post, "/webpush/app-attest/keys", .open) { try await self.attest($0) },
        ]
    }

    private struct ChallengeJSON: Encodable {
        var challenge: String
        /// In seconds since 1970.
        var expires: Int64
    }

    private struct NewKey: RequestMembers {
        enum CodingKeys: String, CodingKey, CaseIterable { case app, environment, key, challenge, attestation }

        static var members: [String] { CodingKeys.allCases.map(\.rawValue) }
        static var hints: [String: String] { ["keyid": "The keyId is key."] }

        var app: String
        var environment: String?
        var key: String
        var challenge: String
        var attestation: String
    }

    private func required() throws(APIError) -> AppAttestRegistration {
        if Task.isShuttingDownGracefully { throw APIError.shuttingDown }
        guard let registration = self.registration else {
            throw APIError.notFound("The relay does not use App Attest (webPush.registration).")
        }
        return registration
    }

    private func challenge(_ request: APIRequest) async throws -> Response {
        _ = try request.query()
        let challenge = try self.required().challenge()
        return .json(ChallengeJSON(challenge: Base64Text.encode(challenge.bytes), expires: challenge.expiry))
    }

    private func attest(_ request: APIRequest) async throws -> Response {
        let registration = try self.required()
        _ = try request.query()
        let new = try await self.reader.json(NewKey.self, of: request).value
        let (app, environment) = try self.live.destination(new.app, new.environment)
        guard let id = Base64Text.decode(new.key), id.count == AttestedKey.idCount else {
            throw APIError.invalid("key", "expected the key's id, 32 bytes in base64")
        }
        guard let attestation = Base64Text.decode(new.attestation) else {
            throw APIError.invalid("attestation", "expected the attestation object in base64")
        }
        try await registration.store(
            attestation,
            of: id,
            challenge: new.challenge,
            path: request.request.uri.path,
            app: app,
            environment: environment
        )
        return Response(status: .noContent)
    }
}
