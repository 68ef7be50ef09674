import APNSModel
import APNSBasics
import Foundation
import APNSTransport
import Testing

@testable import APNSSimulator

struct ProviderTokenTests {
    private static let key = SimulatedKey(keyID: "ABC123DEFG", teamID: "TEAM567890")
    private static let now: Int64 = 1_750_000_000
    private let verifier = ProviderTokenVerifier(
        acceptsUnknownKeys: false,
        keys: [key.keyID: Simulator.Key(key)]
    )

    /// A token of any header and claims, signed by `key`.
    private func token(
        header: String = #"{"alg":"ES256","kid":"ABC123DEFG"}"#,
        claims: String = #"{"iss":"TEAM567890","iat":1750000000}"#,
        key: SimulatedKey = key,
        der: Bool = false
    ) throws -> String {
        let signed = "\(Base64.encodeForURL(header.utf8)).\(Base64.encodeForURL(claims.utf8))"
        let raw = try key.signature(for: Array(signed.utf8))
        let signature = try #require(ES256Signature(rawRepresentation: raw))
        return "\(signed).\(Base64.encodeForURL(der ? try signature.der() : raw))"
    }

    private func fault(_ token: String, now: Int64 = now) -> RejectionReason? {
        ProviderTokenVerifier.fault(of: self.verifier.inspect(token.utf8), now: now)
    }

    @Test func validTokensAreAccepted() throws {
        #expect(self.fault(try Self.key.providerToken(issuedAt: Self.now)) == nil)
        #expect(self.fault(try self.token()) == nil)
        #expect(self.fault(try self.token(header: #"{"typ":"JWT","kid":"ABC123DEFG","alg":"ES256"}"#)) == nil)
        #expect(self.fault(try self.token(der: true)) == nil)
    }

    @Test func forgedTokensAreRefused() throws {
        let good = try self.token()
        let other = SimulatedKey(keyID: "ABC123DEFG", teamID: "TEAM567890")
        var tampered = Array(good.utf8)
        tampered[tampered.count - 20] = tampered[tampered.count - 20] == 0x41 ? 0x42 : 0x41
        let bad = [
            "", "a.b", "a.b.c", "..", good + ".x", String(decoding: tampered, as: UTF8.self),
            try self.token(key: other),
            try self.token(header: #"{"alg":"HS256","kid":"ABC123DEFG"}"#),
            try self.token(header: #"{"alg":"none","kid":"ABC123DEFG"}"#),
            try self.token(header: #"{"alg":"ES256","kid":"ABC123DEFH"}"#),
            try self.token(header: #"{"alg":"ES256","kid":"short"}"#),
            try self.token(header: #"{"alg":"ES256"}"#),
            try self.token(claims: #"{"iss":"TEAM567891","iat":1750000000}"#),
            try self.token(claims: #"{"iss":"TEAM567890","iat":"now"}"#),
            try self.token(claims: #"{"iss":"TEAM567890","iat":1e300}"#),
            try self.token(claims: #"{"iss":"TEAM567890","iat":null}"#),
            try self.token(claims: #"{"iss":"TEAM567890"}"#),
            try self.token(claims: "[]"),
        ]
        for token in bad { #expect(self.fault(token) == .invalidProviderToken, "\(token)") }
    }

    @Test("A token that APNs has accepted for years in another form than Apple's is accepted with a note")
    func toleratedTokens() throws {
        let good = try self.token()
        #expect(self.verifier.inspect(good.utf8).note == nil)
        for claims in [#"{"iss":"TEAM567890","iat":"1750000000"}"#, #"{"iss":"TEAM567890","iat":1750000000.5}"#] {
            let token = try self.token(claims: claims)
            let inspected = self.verifier.inspect(token.utf8)
            #expect(
                inspected.note == .issueTime && inspected.issuedAt == Self.now && self.fault(token) == nil,
                "\(claims)"
            )
            #expect(self.fault(token, now: Self.now + 3601) == .expiredProviderToken)
        }
        #expect(self.verifier.inspect("\(good)=".utf8).note == .alphabet && self.fault("\(good)==") == nil)
    }

    @Test func tokensExpire() throws {
        let token = try self.token()
        #expect(self.fault(token, now: Self.now + 3600) == nil)
        #expect(self.fault(token, now: Self.now + 3601) == .expiredProviderToken)
        #expect(self.fault(token, now: Self.now - 600) == nil)
        #expect(self.fault(token, now: Self.now - 601) == .invalidProviderToken)
        let ancient = try self.token(claims: #"{"iss":"TEAM567890","iat":-9223372036854775808}"#)
        #expect(self.fault(ancient) == .expiredProviderToken)
    }

    @Test func unknownKeysAreAcceptedIfConfigured() throws {
        var verifier = ProviderTokenVerifier(acceptsUnknownKeys: true, keys: [:])
        let token = try self.token()
        #expect(verifier.inspect(token.utf8).isGenuine)
        #expect(!verifier.inspect("a.b.c".utf8).isGenuine)
        verifier.keys["ABC123DEFG"] = Simulator.Key(SimulatedKey(keyID: "ABC123DEFG", teamID: "TEAM567890"))
        #expect(!verifier.inspect(token.utf8).isGenuine)
    }

    @Test func frequentTokenUpdatesAreDetected() throws {
        var verifier = self.verifier
        let tokens = try (0..<4).map { _ in Array(try self.token().utf8) }
        let inspected = verifier.inspect(tokens[0])
        func isTooOften(_ index: Int, _ minute: Int64) -> Bool {
            verifier.isUpdatedTooOften(inspected, bytes: tokens[index], now: Self.now + minute * 60)
        }
        #expect(!isTooOften(0, 0))
        #expect(!isTooOften(0, 1))
        #expect(isTooOften(1, 19))
        #expect(!isTooOften(1, 20))
        #expect(!isTooOften(0, 21), "the previous token counts as an update")
        #expect(isTooOften(2, 39))
        #expect(!isTooOften(2, 40))
    }

    @Test func simulatedKeysHaveApplesForm() throws {
        let key = SimulatedKey()
        #expect(key.keyID.count == 10 && key.teamID.count == 10 && key.keyID != key.teamID)
        #expect(key.p8.hasPrefix("-----BEGIN PRIVATE KEY-----\n") && key.fileName == "AuthKey_\(key.keyID).p8")
        let known = try Simulator.Key(keyID: key.keyID, teamID: key.teamID, publicKeyPEM: key.publicKeyPEM)
        #expect(known.publicKey.rawRepresentation == key.publicKey.rawRepresentation)
    }

    @Test("The error for a public key of another kind names the expected kind")
    func otherKeys() throws {
        for text in ["", "hello", SimulatedKey().p8] {
            let error = #expect(throws: SimulatorError.self) {
                try Simulator.Key(keyID: "ABC123DEFG", teamID: "TEAM567890", publicKeyPEM: text)
            }
            #expect(error?.code == .keyUnusable)
            #expect(error?.message.contains("PEM text of a public key on the curve P-256") == true)
        }
    }
}
