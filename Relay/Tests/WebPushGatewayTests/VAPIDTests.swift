import Crypto
import Foundation
import HTTPTypes
import Testing

@testable import WebPushGateway

struct VAPIDTests {
    private static let now = 1_795_440_000.0
    private static let origin = "https://push.example.com"

    /// A sender with its own key.
    private struct Sender {
        let key = P256.Signing.PrivateKey()

        var publicKey: [UInt8] { Array(self.key.publicKey.x963Representation) }

        func token(
            _ claims: String = #"{"aud":"https://push.example.com","exp":1795443600,"sub":"mailto:ops@example.com"}"#,
            header: String = #"{"typ":"JWT","alg":"ES256"}"#
        ) throws -> String {
            let text = [header, claims].map { Base64Text.encode(Array($0.utf8)) }.joined(separator: ".")
            let signature = try self.key.signature(for: Data(text.utf8))
            return "\(text).\(Base64Text.encode(signature.rawRepresentation))"
        }

        func headers(_ token: String, key: [UInt8]? = nil) -> HTTPFields {
            let text = Base64Text.encode(key ?? self.publicKey)
            return WebPushRequestTests.headers([("authorization", "vapid t=\(token), k=\(text)")])
        }
    }

    private func fault(
        _ headers: HTTPFields,
        _ verifier: VAPIDVerifier = VAPIDVerifier(origins: [Self.origin]),
        now: Double = Self.now
    ) -> WebPushError? {
        do throws(WebPushError) {
            _ = try verifier.sender(headers, now: now)
            return nil
        } catch {
            return error
        }
    }

    @Test("A sender is known by its key, in the present and in the earlier form of the field")
    func sender() throws {
        let sender = Sender()
        let token = try sender.token()
        let key = Base64Text.encode(sender.publicKey)
        let verifier = VAPIDVerifier(origins: ["https://Push.Example.com:443/"])
        for fields in [
            [("authorization", "vapid t=\(token), k=\(key)")],
            [("Authorization", "VAPID k=\"\(key)\" ,t=\"\(token)\"; x=1")],
            [("authorization", "WebPush \(token)"), ("crypto-key", "dh=AAAA;p256ecdsa=\(key)==")],
            [("authorization", "Bearer \(token)"), ("crypto-key", "p256ecdsa=\(key), dh=AAAA")],
        ] {
            for _ in 0..<2 {
                let found = try verifier.sender(WebPushRequestTests.headers(fields), now: Self.now)
                #expect(found == VAPIDSender(key: sender.publicKey, subject: "mailto:ops@example.com"))
            }
        }
        #expect(try verifier.sender([:], now: Self.now) == nil)
    }

    @Test("The audience may be one of several, with the default port and a slash")
    func audiences() throws {
        let sender = Sender()
        for audience in [
            #""https://push.example.com:443""#, #""https://push.example.com/""#, #""HTTPS://PUSH.EXAMPLE.COM""#,
            #"["https://other.example.com","https://push.example.com"]"#,
        ] {
            let headers = sender.headers(try sender.token(#"{"aud":\#(audience),"exp":1795443600}"#))
            #expect(self.fault(headers) == nil, "\(audience)")
        }
        for audience in [#""https://push.example.com:8443""#, #""http://push.example.com""#, "[]", "7"] {
            let headers = sender.headers(try sender.token(#"{"aud":\#(audience),"exp":1795443600}"#))
            #expect(self.fault(headers)?.code == .vapidInvalid, "\(audience)")
        }
    }

    @Test("A token counts until it expires, and may last 24 hours, by clocks that differ by five minutes")
    func expiry() throws {
        let sender = Sender()
        let verifier = VAPIDVerifier(origins: [Self.origin])
        for (lifetime, isValid) in [(-301.0, false), (-299, true), (86_400, true), (86_700, true), (86_701, false)] {
            let claims = #"{"aud":"https://push.example.com","exp":\#(Self.now + lifetime)}"#
            #expect((self.fault(sender.headers(try sender.token(claims)), verifier) == nil) == isValid, "\(lifetime)")
        }
        // Also when it is remembered.
        let headers = sender.headers(try sender.token())
        #expect(self.fault(headers, verifier) == nil)
        #expect(self.fault(headers, verifier, now: Self.now + 3_899) == nil)
        #expect(self.fault(headers, verifier, now: Self.now + 3_901)?.code == .vapidInvalid)
    }

    @Test("A changed token, another key and another algorithm are refused, also after a good request")
    func forged() throws {
        let (sender, other) = (Sender(), Sender())
        let verifier = VAPIDVerifier(origins: [Self.origin])
        let token = try sender.token()
        #expect(self.fault(sender.headers(token), verifier) == nil)
        #expect(self.fault(sender.headers(token, key: other.publicKey), verifier)?.code == .vapidInvalid)
        for header in [#"{"alg":"none"}"#, #"{"alg":"HS256"}"#, "{}", "7"] {
            #expect(self.fault(sender.headers(try sender.token(header: header)), verifier)?.code == .vapidInvalid)
        }
        let characters = Array(token)
        for index in stride(from: 0, to: characters.count, by: 7) {
            var changed = characters
            changed[index] = changed[index] == "A" ? "B" : "A"
            guard changed != characters else { continue }
            #expect(self.fault(sender.headers(String(changed)), verifier)?.code == .vapidInvalid, "\(index)")
        }
        for claims in ["{}", #"{"aud":"https://push.example.com"}"#, #"{"exp":1795443600}"#, "", "null"] {
            #expect(self.fault(sender.headers(try sender.token(claims)), verifier)?.code == .vapidInvalid, "\(claims)")
        }
    }

    @Test(
        "A claim that is missing or has a wrong type is named",
        arguments: [
            (#"{"exp":1795443600}"#, "the claim aud is missing"),
            (#"{"aud":"https://push.example.com"}"#, "the claim exp is missing"),
            (#"{"aud":null,"exp":1795443600}"#, "the claim aud is missing"),
            (#"{"aud":7,"exp":1795443600}"#, "the claim aud must be a string"),
            (#"{"aud":["https://push.example.com",7],"exp":1795443600}"#, "the claim aud must be a string"),
            (#"{"aud":"https://push.example.com","exp":"1795443600"}"#, "the claim exp must be a number"),
            (#"{"aud":"https://push.example.com","exp":true}"#, "the claim exp must be a number"),
            (#"{"aud":"https://push.example.com","exp":1795443600,"sub":["mailto:a@b.c"]}"#, "the claim sub must be"),
            ("[]", "its claims are not a JSON object"), ("{", "its claims are not a JSON object"),
        ]
    )
    func claims(_ claims: String, _ message: String) throws {
        let sender = Sender()
        let fault = self.fault(sender.headers(try sender.token(claims)))
        #expect(fault?.code == .vapidInvalid)
        #expect(fault?.message.contains(message) == true, "\(String(describing: fault))")
    }

    @Test("A field that is no identification is refused and traps nothing")
    func malformed() {
        let key = Base64Text.encode(Sender().publicKey)
        for text in [
            "vapid", "vapid ", "vapid t=a.b.c", "vapid k=\(key)", "vapid t=, k=\(key)", "vapid t=a.b.c, k=AAAA",
            "vapid t=a.b, k=\(key)", "vapid t=a.b.c.d, k=\(key)", "vapid t=!.!.!, k=\(key)", "Basic YTpi",
            "WebPush a.b.c",
        ] {
            #expect(
                self.fault(WebPushRequestTests.headers([("authorization", text)]))?.code == .vapidInvalid,
                "\(text)"
            )
        }
        let twice = WebPushRequestTests.headers([("authorization", "vapid t=a"), ("authorization", "vapid t=a")])
        #expect(self.fault(twice)?.code == .vapidInvalid)
    }

    @Test("Only as many tokens as the capacity are remembered")
    func capacity() throws {
        let verifier = VAPIDVerifier(origins: [Self.origin], capacity: 10)
        let sender = Sender()
        for number in 0..<50 {
            let claims = #"{"aud":"https://push.example.com","exp":\#(Self.now + Double(number))}"#
            #expect(self.fault(sender.headers(try sender.token(claims)), verifier) == nil)
            #expect(verifier.rememberedCount <= 10)
        }
        #expect(verifier.rememberedCount > 0)
    }
}
