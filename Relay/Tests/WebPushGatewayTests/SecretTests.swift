import Testing

@testable import WebPushGateway

struct SecretTests {
    private static let token = Array(0..<32).map { UInt8($0) }

    @Test("An endpoint's secret is random, has one text, and is not in its hash")
    func endpoint() throws {
        let secret = EndpointSecret()
        #expect(secret.text.utf8.count == 43 && secret.hash.utf8.count == 43 && secret.text != secret.hash)
        #expect(EndpointSecret(secret.text) == secret)
        #expect(EndpointSecret(secret.text)?.hash == secret.hash)
        #expect(Set((0..<100).map { _ in EndpointSecret().text }).count == 100)
        for text in [
            "", "AAAA", secret.text + "=", secret.text + "A", String(secret.text.dropLast()), secret.text + " ",
        ] {
            #expect(EndpointSecret(text) == nil, "\(text)")
        }
        // The last of 43 characters has two bits too many.
        let other = String(secret.text.dropLast()) + (secret.text.last == "B" ? "C" : "B")
        #expect(EndpointSecret(other).map { $0 != secret } ?? true)
    }

    @Test("A token can be read with its key and its subscription only")
    func tokens() throws {
        let keys = try #require(DeviceTokenKeys(Array(repeating: 1, count: 32)))
        let sealed = keys.seal(Self.token, for: "s1")
        #expect(try keys.open(sealed, for: "s1") == (Self.token, false))
        #expect(keys.seal(Self.token, for: "s1") != sealed)
        #expect(throws: DeviceTokenKeys.Failure.notAuthentic) { try keys.open(sealed, for: "s2") }
        for index in sealed.indices {
            var changed = sealed
            changed[index] ^= 1
            #expect(throws: DeviceTokenKeys.Failure.self) { try keys.open(changed, for: "s1") }
        }
        for count in 0..<sealed.count {
            #expect(throws: DeviceTokenKeys.Failure.self) { try keys.open(Array(sealed.prefix(count)), for: "s1") }
        }
        let other = try #require(DeviceTokenKeys(Array(repeating: 2, count: 32)))
        #expect(throws: DeviceTokenKeys.Failure.unknownKey) { try other.open(sealed, for: "s1") }
        #expect(DeviceTokenKeys([1]) == nil)
        #expect(DeviceTokenKeys(Array(repeating: 1, count: 32), old: [[1]]) == nil)
    }

    @Test("A new key encrypts, and the old one still decrypts and finds devices")
    func rotation() throws {
        let (old, new) = (Array(repeating: UInt8(1), count: 32), Array(repeating: UInt8(2), count: 32))
        let before = try #require(DeviceTokenKeys(old))
        let both = try #require(DeviceTokenKeys(new, old: [old]))
        let sealed = before.seal(Self.token, for: "s1")
        #expect(try both.open(sealed, for: "s1") == (Self.token, true))
        #expect(try both.open(both.seal(Self.token, for: "s1"), for: "s1") == (Self.token, false))
        let tags = both.tags(Self.token, app: "fern/production")
        #expect(tags.count == 2 && tags[1] == before.tags(Self.token, app: "fern/production")[0])
        #expect(both.tags(Self.token, app: "fern/development") != tags)
        #expect(!"\(both)".contains("1, 1"))
    }
}
