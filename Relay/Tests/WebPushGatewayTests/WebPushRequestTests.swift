import HTTPTypes
import Testing

@testable import WebPushGateway

struct WebPushRequestTests {
    /// The body of RFC 8291, section 5.
    static let body =
        Base64Text.decode(
            """
            DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK\
            6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN
            """
        ) ?? []
    /// The request of draft-ietf-webpush-encryption-04, section 5.
    static let oldBody = Base64Text.decode("6nqAQUME8hNqw5J3kl8cpVVJylXKYqZOeseZG8UueKpA") ?? []
    static let salt = "lngarbyKfMoi9Z75xYXmkg"
    static let senderKey = "BNoRDbb84JGm8g5Z5CFxurSqsXWJ11ItfXEWYVLE85Y7CYkDjXsIEc4aqxYaQ1G8BqkXCJ6DPpDrWtdWj_mugHU"

    static func headers(_ fields: [(String, String)]) -> HTTPFields {
        var headers = HTTPFields()
        for (name, value) in fields {
            if let name = HTTPField.Name(name) { headers.append(HTTPField(name: name, value: value)) }
        }
        return headers
    }

    static func request(
        _ fields: [(String, String)] = [("ttl", "60"), ("content-encoding", "aes128gcm")],
        body: [UInt8] = Self.body
    ) throws(WebPushError) -> WebPushRequest {
        try WebPushRequest(Self.headers(fields), body: body)
    }

    private func fault(_ fields: [(String, String)], body: [UInt8] = Self.body) -> WebPushError? {
        do throws(WebPushError) {
            _ = try Self.request(fields, body: body)
            return nil
        } catch {
            return error
        }
    }

    @Test("The request of RFC 8291 is read, and its body stays as it is")
    func aes128gcm() throws {
        let request = try Self.request([
            ("TTL", "15"), ("Urgency", "High"), ("Topic", "upd"), ("Content-Encoding", "aes128gcm"),
        ])
        #expect(request.timeToLive == 15)
        #expect(request.urgency == .high)
        #expect(request.topic == "upd")
        #expect(request.content?.encoding == .aes128gcm)
        #expect(request.content?.body == Self.body)
        #expect(request.content?.salt == Array(Self.body.prefix(16)))
        #expect(request.content?.senderKey == Array(Self.body[21..<86]))
    }

    @Test(
        "The earlier encoding is read however its parameters are separated and quoted",
        arguments: [
            ["dh=K"], ["keyid=p256dh;dh=K"], ["dh=\"K\";p256ecdsa=BDd3_hVL9"], ["p256ecdsa=BDd3_hVL9,dh=K"],
            ["p256ecdsa=BDd3_hVL9", " dh = K "], ["DH=K=="], ["a=\"x;dh=wrong\";dh=K"],
        ]
    )
    func aesgcm(cryptoKeys: [String]) throws {
        let fields = cryptoKeys.map { ("crypto-key", $0.replacing("K", with: Self.senderKey, maxReplacements: 1)) }
        let request = try Self.request(
            [("ttl", "0"), ("content-encoding", "aesgcm"), ("encryption", "keyid=p256dh;salt=\(Self.salt)")] + fields,
            body: Self.oldBody
        )
        #expect(request.timeToLive == 0)
        #expect(request.urgency == .normal)
        #expect(request.content?.encoding == .aesgcm)
        #expect(request.content.map { Base64Text.encode($0.salt) } == Self.salt)
        #expect(request.content.map { Base64Text.encode($0.senderKey) } == Self.senderKey)
    }

    @Test("A request without a body only wakes the app")
    func noBody() throws {
        #expect(try Self.request([("ttl", "60")], body: []).content == nil)
    }

    @Test("A time to live that is too long is shortened, even if it does not fit into an integer")
    func longTimeToLive() throws {
        for text in ["2592001", "2147483648", "99999999999999999999999999"] {
            let request = try Self.request([("ttl", text), ("content-encoding", "aes128gcm")])
            #expect(request.timeToLive == 2_592_000)
        }
    }

    @Test("A malformed request gets an error that names the field")
    func faults() {
        let encoding = ("content-encoding", "aes128gcm")
        let ttl = ("ttl", "60")
        let old = [ttl, ("content-encoding", "aesgcm")]
        let key = ("crypto-key", "dh=\(Self.senderKey)")
        let cases: [([(String, String)], WebPushError.Code, String)] = [
            ([encoding], .invalidHeader, "TTL"), ([encoding, ("ttl", "-1")], .invalidHeader, "TTL"),
            ([encoding, ("ttl", "")], .invalidHeader, "TTL"), ([encoding, ("ttl", "1.5")], .invalidHeader, "TTL"),
            ([encoding, ttl, ttl], .invalidHeader, "TTL"),
            ([encoding, ttl, ("urgency", "soon")], .invalidHeader, "Urgency"),
            ([encoding, ttl, ("urgency", "low"), ("urgency", "low")], .invalidHeader, "Urgency"),
            ([encoding, ttl, ("topic", "")], .invalidHeader, "Topic"),
            ([encoding, ttl, ("topic", "a b")], .invalidHeader, "Topic"),
            ([encoding, ttl, ("topic", String(repeating: "a", count: 33))], .invalidHeader, "Topic"),
            ([ttl], .unsupportedEncoding, "aes128gcm"),
            ([ttl, ("content-encoding", "gzip")], .unsupportedEncoding, "aes128gcm"),
            (old, .invalidBody, "Crypto-Key"), (old + [key], .invalidBody, "Encryption"),
            (old + [key, ("encryption", "salt=AAAA")], .invalidBody, "salt"),
            (old + [("crypto-key", "dh=AAAA"), ("encryption", "salt=\(Self.salt)")], .invalidBody, "P-256"),
        ]
        for (fields, code, text) in cases {
            let error = self.fault(fields)
            #expect(error?.code == code, "\(fields)")
            #expect(error?.message.contains(text) == true, "\(fields): \(error?.message ?? "")")
        }
    }

    @Test("A body that is no message is refused at every length, and a point that is not on the curve, too")
    func bodies() {
        let fields = [("ttl", "60"), ("content-encoding", "aes128gcm")]
        for count in 0..<103 {
            #expect(self.fault(fields, body: Array(Self.body.prefix(count)))?.code == .invalidBody, "\(count)")
        }
        var body = Self.body
        body[50] ^= 1
        #expect(self.fault(fields, body: body)?.code == .invalidBody)
        body = Self.body
        // A record size that is smaller than the content.
        body[16...19] = [0, 0, 0, 20]
        #expect(self.fault(fields, body: body)?.code == .invalidBody)
        #expect(self.fault(fields, body: Array(repeating: 0, count: 4_097))?.code == .tooLarge)
    }

    @Test("The statuses are those of RFC 8030 and RFC 8292")
    func statuses() {
        let statuses: [WebPushError.Code: Int] = [
            .invalidHeader: 400, .invalidBody: 400, .unsupportedEncoding: 415, .tooLarge: 413, .vapidMissing: 401,
            .vapidInvalid: 403,
        ]
        for (code, status) in statuses { #expect(WebPushError(code, "").status == status) }
    }
}
