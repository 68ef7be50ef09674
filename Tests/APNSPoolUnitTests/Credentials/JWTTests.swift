import Foundation
import APNSTransport
import Testing

@testable import APNSPool
@testable import APNSPoolTestSupport

struct JWTTests {
    static func decoded(_ part: Substring) throws -> Data {
        var text = part.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        while text.utf8.count % 4 != 0 { text += "=" }
        return try #require(Data(base64Encoded: text))
    }

    @Test("A token has three parts, a valid signature and JSON that decodes")
    func parts() async throws {
        let key = try ES256PrivateKey()
        let signer = ProviderTokenSigner(key: key, identifiers: try .sample)
        // Many signatures: in some of them r or s begins with zero bytes, which reveals encoding errors.
        for offset in 0..<300 {
            let issuedAt = 1_800_000_000 + Int64(offset)
            let jwt = try await signer.jwt(issuedAt: issuedAt)
            #expect(!jwt.contains { "=+/".contains($0) })
            let parts = jwt.split(separator: ".", omittingEmptySubsequences: false)
            try #require(parts.count == 3)

            let signature = try #require(ES256Signature(rawRepresentation: Array(try Self.decoded(parts[2]))))
            #expect(key.publicKey.isValid(signature, of: Array("\(parts[0]).\(parts[1])".utf8)))

            #expect(
                String(decoding: try Self.decoded(parts[0]), as: UTF8.self) == #"{"alg":"ES256","kid":"9UC9ZLQ8YW"}"#
            )
            let claims = try Self.decoded(parts[1])
            #expect(
                String(decoding: claims, as: UTF8.self) == #"{"iss":"ABBM6U9RM5","iat":\#(issuedAt)}"#
            )
            struct Claims: Decodable {
                var iss: String
                var iat: Int64
            }
            let read = try JSONDecoder().decode(Claims.self, from: claims)
            #expect(read.iat == issuedAt)
            #expect(read.iss == "ABBM6U9RM5")
        }
    }

    @Test("The key from a file signs the token")
    func keyOfFile() async throws {
        try await #require(
            try withFile("AuthKey_9UC9ZLQ8YW.p8", KeyTexts.p256.utf8) { path in
                try APNSAuthentication.token(keyFile: path, teamID: "ABBM6U9RM5").makeSigner()
            }
        ).jwt(issuedAt: 1).split(separator: ".").map(String.init).withParts { header, claims, signature in
            // The output of `openssl pkey -pubout` for the same key.
            let key = try ES256PublicKey(pem: KeyTexts.publicKey)
            let raw = try #require(ES256Signature(rawRepresentation: Array(try Self.decoded(signature[...]))))
            #expect(key.isValid(raw, of: Array("\(header).\(claims)".utf8)))
        }
    }

    @Test("A signer's failure and a malformed signature produce typed errors")
    func failures() async throws {
        let der = ProviderTokenSigner(identifiers: try .sample) { _ in [UInt8](repeating: 1, count: 71) }
        let failing = ProviderTokenSigner(identifiers: try .sample) { _ in throw ScriptedSigner.Failure() }
        for (signer, words) in [(der, "71 bytes"), (failing, "Failure")] {
            let error = await #expect(throws: TokenError.self) { try await signer.jwt(issuedAt: 1) }
            #expect(error?.message.contains(words) == true)
        }
    }

    @Test("The description of a token does not show the token")
    func secrecy() {
        let token = ProviderToken(jwt: "aaa.bbb.ccc", generation: 3, issuedAt: 5)
        #expect("\(token)" == "provider token 3, issued at 5")
        #expect(!String(reflecting: token).contains("bbb"))
    }
}

extension [String] {
    fileprivate func withParts(_ body: (String, String, String) throws -> Void) throws {
        try #require(count == 3)
        try body(self[0], self[1], self[2])
    }
}

struct ClockSkewTests {
    @Test(
        "A date field is parsed into seconds",
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            ("Fri, 31 Dec 2027 12:00:00 GMT", 1_830_254_400),
            ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
        ] as [(String, Int64)]
    )
    func dates(text: String, seconds: Int64) {
        #expect(HTTPDate.seconds(text) == seconds)
    }

    @Test(
        "Any other text is not parsed as a date",
        arguments: [
            "", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT", "Sun, 06 nov 1994 08:49:37 GMT", "Xxx, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT", "Sun, 06 Nov 1994 -8:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT ",
            "Sun, 06 Nov 1994 08:49:3\u{E9} GM",
        ]
    )
    func noDates(text: String) {
        #expect(HTTPDate.seconds(text) == nil)
        #expect(ClockSkew.skewHint(dateHeader: text, wallNow: 0) == nil)
    }

    @Test("The hint states how far the clock is off, and in which direction")
    func hints() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT"
        let theirs: Int64 = 784_111_777
        func hint(_ skew: Int64) -> String? { ClockSkew.skewHint(dateHeader: date, wallNow: theirs + skew) }
        #expect(hint(0) == nil)
        #expect(hint(60) == nil)
        #expect(hint(-60) == nil)
        #expect(hint(61) == "this machine's clock is 61 s ahead of APNs")
        #expect(hint(-61) == "this machine's clock is 61 s behind APNs")
        #expect(hint(-600) == "this machine's clock is 10 min behind APNs")
        #expect(hint(7_200) == "this machine's clock is 2 h ahead of APNs")
        #expect(hint(-10 * 86_400) == "this machine's clock is 10 days behind APNs")
        #expect(ClockSkew.skewHint(dateHeader: date, wallNow: .min)?.contains("behind") == true)
        #expect(ClockSkew.skewHint(dateHeader: date, wallNow: .max)?.contains("ahead of") == true)
        #expect(ClockSkew.skewHint(dateHeader: nil, wallNow: 0) == nil)
    }
}
