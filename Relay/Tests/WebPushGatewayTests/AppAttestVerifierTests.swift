import AppAttestTestDevice
import Crypto
import Foundation
import Testing

@testable import WebPushGateway

/// Each check of an attestation and of an assertion: evidence with one fault is refused for that fault.
struct AppAttestVerifierTests {
    static let now: Int64 = 1_795_440_000
    static let app = AppAttestApp(id: "ABCDE12345.com.example.fern")
    static let request = AppAttestRequest(method: "POST", path: "/keys", challenge: "challenge")

    private static func device(_ authority: TestAuthority) -> TestDevice { TestDevice(authority, appID: Self.app.id) }

    /// The code with which an attestation is refused; nil if it is accepted.
    private static func refusal(
        _ device: TestDevice,
        app: AppAttestApp = Self.app,
        id: [UInt8]? = nil,
        now: Int64 = Self.now,
        root: String? = nil,
        _ change: (inout TestDevice.Attestation) -> Void = { _ in }
    ) async throws -> AppAttestError.Code? {
        let attestation = try device.attestation(Self.request.clientDataHash, now: Self.now, change)
        return await Self.refusal(
            attestation,
            id ?? device.keyID,
            try AppAttestVerifier(root: root ?? device.authority.rootPEM),
            app: app,
            now: now
        )
    }

    private static func refusal(
        _ attestation: [UInt8],
        _ id: [UInt8],
        _ verifier: AppAttestVerifier,
        app: AppAttestApp = Self.app,
        now: Int64 = Self.now
    ) async -> AppAttestError.Code? {
        do throws(AppAttestError) {
            _ = try await verifier.key(
                id,
                attestedBy: attestation,
                clientDataHash: Self.request.clientDataHash,
                app: app,
                now: now
            )
            return nil
        } catch {
            return error.code
        }
    }

    @Test("The attestation of Apple's validation guide is accepted with Apple's root, at its time only")
    func validationGuide() async throws {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "validation-guide.txt")
        var parts: [String: [UInt8]] = [:]
        for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
            let words = line.split(separator: " ")
            parts[String(words[0])] = Array(try #require(Data(base64Encoded: String(words[1]))))
        }
        let data = try #require(parts["authData"])
        let chain = [try #require(parts["leaf"]), try #require(parts["intermediate"])]
        // Without the receipt, which nothing reads.
        let attestation = CBOREncoder.map([
            ("fmt", CBOREncoder.text("apple-appattest")),
            ("attStmt", CBOREncoder.map([("x5c", CBOREncoder.array(chain.map { CBOREncoder.bytes($0) }))])),
            ("authData", CBOREncoder.bytes(data)),
        ])
        let id = Array(try #require(Data(base64Encoded: "zgSY9YSD+7TaDXssY6WlOPVS1K3Lmk+pFhlcSWE+ZV0=")))
        let verifier = try AppAttestVerifier()
        // 2026-04-21 12:00 UTC. The guide's example uses the challenge itself as the hash.
        let (time, hash) = (Int64(1_776_772_800), Array("example_server_challenge".utf8))
        func verify(_ now: Int64, _ app: String = "1234567890.com.example.myapp") async throws -> AttestedKey {
            try await verifier.key(
                id,
                attestedBy: attestation,
                clientDataHash: hash,
                app: AppAttestApp(id: app),
                now: now
            )
        }
        #expect(Array(SHA256.hash(data: try await verify(time).publicKey)) == id)
        for (now, app, code) in [
            (time - 5 * 86_400, "1234567890.com.example.myapp", AppAttestError.Code.untrusted),
            (time + 5 * 86_400, "1234567890.com.example.myapp", .untrusted),
            (time, "1234567890.com.example.other", .otherApp),
        ] {
            let error = await #expect(throws: AppAttestError.self) { try await verify(now, app) }
            #expect(error?.code == code)
        }
    }

    @Test("The embedded certificate is Apple's, by its fingerprint")
    func root() throws {
        let text = AppAttestVerifier.applesRoot.split(separator: "\n").dropFirst().dropLast().joined()
        let bytes = try #require(Data(base64Encoded: text))
        let fingerprint = SHA256.hash(data: bytes).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
        #expect(fingerprint.joined() == "1cb9823ba28ba6ad2d33a006941de2ae4f513ef1d4e831b9f7e0fa7b6242c932")
        #expect(try AppAttestVerifier().rootExpiry == 2_373_148_800)
        let error = #expect(throws: AppAttestError.self) { try AppAttestVerifier(root: "no certificate") }
        #expect(error?.code == .invalidRoot)
    }

    @Test("An attestation is accepted only if each of its parts is right")
    func attestations() async throws {
        let authority = try TestAuthority(now: Self.now)
        let (device, other) = (Self.device(authority), Self.device(authority))
        #expect(try await Self.refusal(device) == nil)
        #expect(try await Self.refusal(device) { $0.receipt = nil } == nil)
        let cases: [(AppAttestError.Code, (inout TestDevice.Attestation) -> Void)] = [
            (.malformed, { $0.format = "packed" }), (.malformed, { $0.counter = 1 }),
            (.malformed, { $0.credentialID.removeLast() }), (.malformed, { $0.credentialID.append(0) }),
            (.malformed, { $0.aaguid.removeLast() }),
            (.otherApp, { $0.appID = "ABCDE12345.com.example.moss" }),
            (.otherApp, { $0.appID = "ZZZZZ12345.com.example.fern" }),
            (.otherEnvironment, { $0.aaguid = TestDevice.development }),
            (.otherEnvironment, { $0.aaguid = Array(repeating: 0, count: 16) }),
            (.otherKey, { $0.credentialID = other.keyID }), (.otherKey, { $0.signedKey = other.key.publicKey }),
            (.otherClientData, { $0.clientDataHash[0] ^= 1 }),
            (.otherClientData, { $0.nonce = Array(repeating: 0, count: 32) }),
        ]
        for (index, (code, change)) in cases.enumerated() {
            #expect(try await Self.refusal(device, change) == code, "case \(index)")
        }
        // The id that the device names is that of the key.
        #expect(try await Self.refusal(device, id: other.keyID) == .otherKey)
        #expect(
            try await Self.refusal(device, id: other.keyID) { $0.credentialID = other.keyID } == .otherKey
        )
    }

    @Test("Keys of the development environment count only where they are allowed, and production's everywhere")
    func environments() async throws {
        let device = Self.device(try TestAuthority(now: Self.now))
        let app = AppAttestApp(id: Self.app.id, allowsDevelopment: true)
        #expect(try await Self.refusal(device, app: app) { $0.aaguid = TestDevice.development } == nil)
        #expect(try await Self.refusal(device, app: app) == nil)
    }

    @Test("The certificates must lead to the root, and be valid at the time of the attestation")
    func chains() async throws {
        let authority = try TestAuthority(now: Self.now)
        let device = Self.device(authority)
        #expect(try await Self.refusal(device, root: try TestAuthority(now: Self.now).rootPEM) == .untrusted)
        #expect(try await Self.refusal(device, root: AppAttestVerifier.applesRoot) == .untrusted)
        for days: Int64 in [-2, 3] {
            #expect(try await Self.refusal(device, now: Self.now + days * 86_400) == .untrusted)
        }
        // An attested key is no authority: nobody can attest further keys with it.
        let pretender = Self.device(try TestAuthority(now: Self.now, isAuthority: false))
        #expect(try await Self.refusal(pretender) == .untrusted)
    }

    @Test("An attestation with other certificates than Apple sends is refused")
    func certificates() async throws {
        let authority = try TestAuthority(now: Self.now)
        let device = Self.device(authority)
        let verifier = try AppAttestVerifier(root: authority.rootPEM)
        let object = try CBORValue(try device.attestation(Self.request.clientDataHash, now: Self.now))
        let data = try #require(object["authData"]?.bytes)
        let elements = try #require(object["attStmt"]?["x5c"]?.elements)
        let chain = elements.compactMap(\.bytes)
        func attestation(_ chain: [[UInt8]]) -> [UInt8] {
            CBOREncoder.map([
                ("fmt", CBOREncoder.text("apple-appattest")),
                ("attStmt", CBOREncoder.map([("x5c", CBOREncoder.array(chain.map { CBOREncoder.bytes($0) }))])),
                ("authData", CBOREncoder.bytes(data)),
            ])
        }
        #expect(await Self.refusal(attestation(chain), device.keyID, verifier) == nil)
        for (chain, code) in [
            ([], AppAttestError.Code.malformed), ([chain[0]], .untrusted), ([[1, 2, 3], chain[1]], .malformed),
            ([chain[1], chain[0]], .malformed), (chain + chain, .malformed),
        ] {
            #expect(await Self.refusal(attestation(chain), device.keyID, verifier) == code)
        }
    }

    @Test("An assertion is accepted only from its key, for its request and its app")
    func assertions() async throws {
        let authority = try TestAuthority(now: Self.now)
        let (device, other) = (Self.device(authority), Self.device(authority))
        let verifier = try AppAttestVerifier(root: authority.rootPEM)
        let hash = Self.request.clientDataHash
        let key = AttestedKey(publicKey: Array(device.key.publicKey.x963Representation))
        func refusal(_ assertion: [UInt8], _ hash: [UInt8] = hash) -> AppAttestError.Code? {
            do throws(AppAttestError) {
                _ = try verifier.counter(of: assertion, by: key, clientDataHash: hash, app: Self.app)
                return nil
            } catch {
                return error.code
            }
        }
        let assertion = try device.assertion(hash, counter: 7)
        #expect(try verifier.counter(of: assertion, by: key, clientDataHash: hash, app: Self.app) == 7)
        #expect(refusal(try other.assertion(hash, counter: 7)) == .otherClientData)
        #expect(refusal(try device.assertion(hash, counter: 7, appID: "ABCDE12345.com.example.moss")) == .otherApp)
        for change: (inout AppAttestRequest) -> Void in [
            { $0.method = "DELETE" }, { $0.path = "/other" }, { $0.challenge = "other" }, { $0.body = [1] },
        ] {
            var request = Self.request
            change(&request)
            #expect(refusal(assertion, request.clientDataHash) == .otherClientData)
        }
        for bytes in [[], [0xA0], CBOREncoder.map([("signature", CBOREncoder.bytes([1]))])] {
            #expect(refusal(bytes) == .malformed)
        }
    }

    @Test("The client data of two requests differ")
    func clientData() {
        let first = AppAttestRequest(method: "POST", path: "/a", challenge: "b", body: Array("c".utf8))
        #expect(first.clientDataHash == Array(SHA256.hash(data: Data("POST /a\nb\nc".utf8))))
        let second = AppAttestRequest(method: "POST", path: "/a", challenge: "b\nc")
        #expect(first.clientDataHash != second.clientDataHash)
    }

    @Test("Evidence that is cut short or changed at random is refused, and traps nothing")
    func mutations() async throws {
        let authority = try TestAuthority(now: Self.now)
        let device = Self.device(authority)
        let verifier = try AppAttestVerifier(root: authority.rootPEM)
        let hash = Self.request.clientDataHash
        let attestation = try device.attestation(hash, now: Self.now) { $0.receipt = nil }
        let assertion = try device.assertion(hash, counter: 7)
        let key = AttestedKey(publicKey: Array(device.key.publicKey.x963Representation))
        for count in 0..<attestation.count {
            #expect(await Self.refusal(Array(attestation.prefix(count)), device.keyID, verifier) != nil)
        }
        let seed = UInt64.random(in: 0...(.max))
        var random = SplitMix(state: seed)
        for round in 0..<10_000 {
            let isAttestation = round.isMultiple(of: 2)
            let bytes = Self.mutated(isAttestation ? attestation : assertion, &random)
            guard bytes != attestation, bytes != assertion else { continue }
            if isAttestation {
                guard !Self.differsOnlyInUnusedBits(bytes, attestation) else { continue }
                let code = await Self.refusal(bytes, device.keyID, verifier)
                #expect(code != nil, "seed \(seed), round \(round)")
            } else {
                #expect(throws: AppAttestError.self, "seed \(seed), round \(round)") {
                    try verifier.counter(of: bytes, by: key, clientDataHash: hash, app: Self.app)
                }
            }
        }
    }

    /// Whether two attestations differ only in the octets that say how many bits of a certificate's signature are unused
    /// (X.690, section 8.6.2.2). They are outside what is signed, and no verifier reads them.
    private static func differsOnlyInUnusedBits(_ bytes: [UInt8], _ original: [UInt8]) -> Bool {
        bytes.count == original.count
            && bytes.indices.allSatisfy { index in
                // BIT STRING, its length, this octet, SEQUENCE.
                bytes[index] == original[index]
                    || index >= 2
                        && original[(index - 2)...].prefix(4).elementsEqual([
                            0x03, original[index - 1], 0x00, 0x30,
                        ])
            }
    }

    /// Changes, removes, repeats or inserts some bytes.
    private static func mutated(_ bytes: [UInt8], _ random: inout SplitMix) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...3, using: &random) where !bytes.isEmpty {
            let at = Int.random(in: 0..<bytes.count, using: &random)
            let end = min(bytes.count, at + Int.random(in: 1...40, using: &random))
            switch Int.random(in: 0..<5, using: &random) {
            case 0: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 1: bytes[at] = UInt8.random(in: 0...255, using: &random)
            case 2: bytes.removeSubrange(at..<end)
            case 3: bytes.insert(contentsOf: bytes[at..<end], at: at)
            default: bytes.insert(UInt8.random(in: 0...255, using: &random), at: at)
            }
        }
        return bytes
    }

    private struct SplitMix: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            self.state &+= 0x9E37_79B9_7F4A_7C15
            var value = self.state
            value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
            value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
            return value ^ (value >> 31)
        }
    }
}
