#if Sealing
    import Foundation
    import Testing

    @testable import APNSSealing

    struct KeyTests {
        @Test func bothSidesDeriveTheSameKey() throws {
            for _ in 0..<20 {
                let device = SealingKeyPair()
                let server = SealingKeyPair()
                let onDevice = try device.agree(with: server.publicKey, as: .device, context: "fern")
                let onServer = try server.agree(with: device.publicKey, as: .server, context: "fern")
                #expect(onDevice == onServer)
                let sealed = try PayloadSealer(key: onServer).seal(bytes: [1, 2, 3])
                #expect(try PayloadOpener(key: onDevice).open(sealed).content == [1, 2, 3])
            }
        }

        /// Each input changes the key: either public key, the roles, the context.
        @Test func everyInputChangesTheKey() throws {
            let device = SealingKeyPair()
            let server = SealingKeyPair()
            let other = SealingKeyPair()
            let keys = [
                try device.agree(with: server.publicKey, as: .device, context: "fern"),
                try device.agree(with: server.publicKey, as: .server, context: "fern"),
                try device.agree(with: server.publicKey, as: .device, context: "fern "),
                try device.agree(with: server.publicKey, as: .device, context: ""),
                try device.agree(with: other.publicKey, as: .device, context: "fern"),
                try other.agree(with: server.publicKey, as: .device, context: "fern"),
            ]
            #expect(Set(keys.map(\.rawRepresentation)).count == keys.count)
            #expect(Set(keys.map(\.id)).count == keys.count)
            // The key does not contain its id.
            for key in keys { #expect(!text(key.rawRepresentation).contains(key.id.description)) }
        }

        /// Points whose product with any private key is known (RFC 7748 §6.1, §7; 0, 1, and a point of order 8).
        @Test(arguments: [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "0100000000000000000000000000000000000000000000000000000000000000",
            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        ])
        func pointsOfLowOrderAreRefused(point: String) throws {
            let publicKey = try SealingPublicKey(rawRepresentation: hexadecimal(point))
            let error = sealingError { try SealingKeyPair().agree(with: publicKey, as: .server, context: "") }
            #expect(error == SealingError(.publicKeyUnusable))
        }

        @Test(arguments: [0, 31, 33]) func keysOfAnotherLengthAreRefused(count: Int) {
            let bytes = [UInt8](repeating: 9, count: count)
            let expected = SealingError(.keyLengthWrong, actual: count, limit: 32)
            #expect(
                sealingError { try SealingKey(id: SealingKeyID(rawValue: 1), rawRepresentation: bytes) } == expected
            )
            #expect(sealingError { try SealingPublicKey(rawRepresentation: bytes) } == expected)
            #expect(sealingError { try SealingKeyPair(rawRepresentation: bytes) } == expected)
        }

        @Test func keysRoundTrip() throws {
            let key = SealingKey()
            #expect(try SealingKey(id: key.id, rawRepresentation: key.rawRepresentation) == key)
            let pair = SealingKeyPair()
            #expect(try SealingKeyPair(rawRepresentation: pair.rawRepresentation).publicKey == pair.publicKey)
            let data = try JSONEncoder().encode([pair.publicKey])
            #expect(try JSONDecoder().decode([SealingPublicKey].self, from: data) == [pair.publicKey])
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode([SealingPublicKey].self, from: Data(#"["AAAA"]"#.utf8))
            }
            #expect(SealingKey() != SealingKey())
        }

        @Test(
            arguments: [
                (0, "0000000000000000"), (1, "0000000000000001"), (UInt64.max, "ffffffffffffffff"),
                (0x0123_4567_89AB_CDEF, "0123456789abcdef"),
            ] as [(UInt64, String)]
        )
        func idsAreSixteenDigits(number: UInt64, digits: String) {
            let id = SealingKeyID(rawValue: number)
            #expect(id.description == digits)
            #expect(text(id.bytes) == digits)
            #expect(SealingKeyID(id.bytes) == id)
        }

        /// No printed, interpolated, dumped or reflected text, at any depth, contains a secret or content.
        @Test func descriptionsContainNoSecrets() throws {
            let secret = [UInt8](repeating: 0xA7, count: 32)
            let key = try SealingKey(id: SealingKeyID(rawValue: 0x11), rawRepresentation: secret)
            let pair = try SealingKeyPair(rawRepresentation: secret)
            let opener = PayloadOpener(keyring: SealingKeyring(entries: [.init(key: key, acceptedUntil: .start)]))
            let sealer = PayloadSealer(key: key)
            // No random values and no clock: their digits might equal a mark.
            let nonce = try Primitives.nonce([UInt8](repeating: 0, count: 12))
            let sealed = try sealer.seal(bytes: Array("At eight?".utf8), at: .start, nonce: nonce)
            let message = try PayloadOpener(key: key).open(sealed)
            // 0xA7 is 167; Swift prints arrays in decimal.
            let marks = ["167", "a7a7", "A7A7", "p6en", "At eight", "65, 116, 32"]
            func check(_ value: Any, _ kind: String) {
                var dumped = ""
                dump(value, to: &dumped)
                for text in ["\(value)", String(reflecting: value), dumped, "\([value])", "\(Optional(value) as Any)"] {
                    for mark in marks { #expect(!text.contains(mark), "\(kind) shows \(mark)") }
                }
            }
            check(key, "key")
            check(pair, "pair")
            check(opener.keyring, "keyring")
            check(opener, "opener")
            check(sealer, "sealer")
            check(message, "message")
            // The marks would detect a key without its custom mirror.
            #expect("\(key.rawRepresentation)".contains(marks[0]))
            #expect("\(message.content)".contains(marks[5]))
            #expect("\(key)" == "SealingKey(0000000000000011, redacted)")
        }
    }

    struct KeyringTests {
        private let old = SealingKey()
        private let new = SealingKey()

        private func opens(_ keyring: SealingKeyring, _ key: SealingKey, after seconds: Double) -> Bool {
            let now = Date.start.addingTimeInterval(seconds)
            guard let sealed = try? PayloadSealer(key: key).seal(bytes: [1]) else { return false }
            return (try? PayloadOpener(keyring: keyring).open(sealed, at: now)) != nil
        }

        @Test func anOldKeyIsAcceptedForTheOverlap() {
            var keyring = SealingKeyring(old)
            #expect(opens(keyring, old, after: 1_000_000_000))
            keyring.rotate(to: new, at: .start, overlap: .seconds(100))
            #expect(opens(keyring, old, after: 0))
            #expect(opens(keyring, old, after: 99.999))
            #expect(!opens(keyring, old, after: 100))
            #expect(opens(keyring, new, after: 1_000_000_000))
            keyring.removeExpired(at: .start.addingTimeInterval(99))
            #expect(keyring.entries.count == 2)
            keyring.removeExpired(at: .start.addingTimeInterval(100))
            #expect(keyring.entries.map(\.key) == [new])
        }

        @Test func theDefaultOverlapIsLongerThanAPNsStorage() {
            var keyring = SealingKeyring(old)
            keyring.rotate(to: new, at: .start)
            #expect(opens(keyring, old, after: 30 * 86_400))
            #expect(!opens(keyring, old, after: 31 * 86_400))
        }

        /// A second rotation does not extend the life of keys that the first one retired.
        @Test func aSecondRotationDoesNotExtendRetiredKeys() {
            let newest = SealingKey()
            var keyring = SealingKeyring(old)
            keyring.rotate(to: new, at: .start, overlap: .seconds(100))
            keyring.rotate(to: newest, at: .start.addingTimeInterval(50), overlap: .seconds(100))
            #expect(!opens(keyring, old, after: 100))
            #expect(opens(keyring, new, after: 149))
            #expect(!opens(keyring, new, after: 150))
            keyring.retire(new.id, at: .start.addingTimeInterval(60), overlap: .seconds(1_000))
            #expect(!opens(keyring, new, after: 150))
            keyring.retire(new.id, at: .start.addingTimeInterval(60), overlap: .seconds(-5))
            #expect(!opens(keyring, new, after: 60))
            #expect(opens(keyring, newest, after: 1_000))
            keyring.retire(SealingKeyID(rawValue: 0), at: .start)
            #expect(keyring.entries.count == 3)
        }

        @Test func aRemovedKeyStopsOpeningAtOnce() {
            var keyring = SealingKeyring(old, new)
            keyring.remove(old.id)
            #expect(!opens(keyring, old, after: 0))
            #expect(opens(keyring, new, after: 0))
        }

        @Test func aKeyReplacesTheOneWithItsID() throws {
            let same = try SealingKey(id: old.id, rawRepresentation: new.rawRepresentation)
            var keyring = SealingKeyring(old)
            keyring.add(same)
            #expect(keyring.entries == [.init(key: same)])
            let stored = SealingKeyring(entries: [.init(key: old, acceptedUntil: .start), .init(key: same)])
            #expect(stored.entries == [.init(key: same)])
            #expect(!opens(stored, old, after: 0))
        }
    }
#endif
