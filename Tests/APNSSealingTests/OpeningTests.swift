#if Sealing
    import APNSModel
    import Foundation
    import Testing

    @testable import APNSSealing

    struct OpeningTests {
        private let key = SealingKey()

        private func sealed(_ limit: Int = 100, purpose: SealingPurpose = .notification) throws -> SealedPayload {
            try PayloadSealer(key: key, purpose: purpose, size: SealedSize(contentLimit: limit))
                .seal(bytes: Array("At eight?".utf8), at: .start)
        }

        /// The error that opening these bytes throws.
        private func error(_ bytes: [UInt8]) -> SealingError? {
            sealingError { try PayloadOpener(key: key).open(SealedPayload(bytes: bytes)) }
        }

        /// Changes one bit or all bits of every byte of a payload of the standard size.
        @Test func aChangeAtAnyPositionFails() throws {
            let bytes = try PayloadSealer(key: key).seal(bytes: Array("At eight?".utf8)).bytes
            #expect(error(bytes) == nil)
            for position in bytes.indices {
                for change: UInt8 in [1, 0x80, 0xFF] {
                    var changed = bytes
                    changed[position] ^= change
                    let error = error(changed)
                    switch position {
                    case 0:
                        #expect(error == SealingError(.unsupportedVersion, actual: Int(changed[0]), limit: 1))
                    case 1...8:
                        #expect(error == SealingError(.unknownKey, keyID: SealingKeyID(changed[1...])))
                    default:
                        // The same error without details, wherever the change is.
                        #expect(error == SealingError(.notAuthentic), "position \(position)")
                    }
                }
            }
        }

        @Test func aChangeOfAnyBitFails() throws {
            let bytes = try sealed(9).bytes
            for position in bytes.indices {
                for bit in 0..<8 {
                    var changed = bytes
                    changed[position] ^= 1 << bit
                    #expect(error(changed) != nil, "position \(position), bit \(bit)")
                }
            }
        }

        /// The same holds for the text: a payload with a changed character does not open.
        @Test func aChangeOfAnyCharacterFails() throws {
            let text = Array(try sealed(9).text.utf8)
            let opener = PayloadOpener(key: key)
            for position in text.indices {
                for other in "Aa0-_=+/ \n".utf8 where other != text[position] {
                    var changed = text
                    changed[position] = other
                    let changedText = String(decoding: changed, as: UTF8.self)
                    #expect(throws: SealingError.self) { try opener.open(SealedPayload(text: changedText)) }
                }
            }
        }

        @Test func truncationAtAnyLengthFails() throws {
            let payload = try PayloadSealer(key: key).seal(bytes: Array("At eight?".utf8))
            for count in payload.bytes.indices {
                let error = error(Array(payload.bytes.prefix(count)))
                #expect(error?.code == (count < 45 ? .malformed : .notAuthentic), "\(count) bytes")
            }
            let text = payload.text
            let opener = PayloadOpener(key: key)
            for count in 0..<text.utf8.count {
                let error = sealingError { try opener.open(SealedPayload(text: String(text.prefix(count)))) }
                #expect(error?.code == .malformed || error?.code == .notAuthentic, "\(count) characters")
            }
        }

        @Test func appendedBytesFail() throws {
            #expect(error(try sealed().bytes + [0]) == SealingError(.notAuthentic))
            #expect(error(try sealed().bytes + sealed().bytes) == SealingError(.notAuthentic))
        }

        /// A wrong key, a wrong purpose and a changed byte cause the same error.
        @Test func allAuthenticationFailuresThrowTheSameError() throws {
            let payload = try sealed()
            let impostor = try SealingKey(id: key.id, rawRepresentation: SealingKey().rawRepresentation)
            let wrongKey = sealingError { try PayloadOpener(key: impostor).open(payload) }
            let wrongPurpose = sealingError { try PayloadOpener(key: key, purpose: .call).open(payload) }
            var changed = payload.bytes
            changed[60] ^= 1
            #expect(wrongKey == SealingError(.notAuthentic))
            #expect(wrongPurpose == wrongKey)
            #expect(error(changed) == wrongKey)
            #expect(wrongPurpose?.description == wrongKey?.description)
            #expect(try PayloadOpener(key: key).open(payload).text == "At eight?")
        }

        /// The key's id is authenticated too: if two ids share a secret, neither can replace the other.
        @Test func anotherIDOfTheSameSecretIsNotAuthentic() throws {
            let twin = try SealingKey(id: SealingKeyID(rawValue: 7), rawRepresentation: key.rawRepresentation)
            let opener = PayloadOpener(keyring: SealingKeyring(key, twin))
            let bytes = try sealed().bytes
            #expect(try opener.open(SealedPayload(bytes: bytes)).keyID == key.id)
            let renamed = try SealedPayload(bytes: [1] + twin.id.bytes + bytes.dropFirst(9))
            #expect(sealingError { try opener.open(renamed) } == SealingError(.notAuthentic))
        }

        /// The purpose comes last and the key's id has a fixed length, so the parts cannot be confused.
        @Test func purposesWithACommonPrefixDiffer() throws {
            let purposes = ["", "c", "call", "calls", "call\u{0}"].map { SealingPurpose(rawValue: $0) }
            for one in purposes {
                let payload = try sealed(purpose: one)
                for other in purposes {
                    let error = sealingError { try PayloadOpener(key: key, purpose: other).open(payload) }
                    #expect(error == (one == other ? nil : SealingError(.notAuthentic)))
                }
            }
        }

        /// The holder of a key can seal a frame whose length field is too large. The error is the same.
        @Test func aFrameWithAWrongLengthIsNotAuthentic() throws {
            for frame: [UInt8] in [[0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 1, 2, 3]] {
                let header = [SealedPayload.version] + key.id.bytes
                let combined = try Primitives.seal(
                    frame,
                    key: key.secret,
                    nonce: Primitives.freshNonce(),
                    authenticating: SealedPayload.associatedData(header: header, purpose: .notification)
                )
                #expect(error(header + combined) == SealingError(.notAuthentic))
            }
        }

        @Test func anotherVersionIsReported() throws {
            for version: UInt8 in [0, 2, 255] {
                // Even if the payload is shorter than this version allows.
                #expect(error([version]) == SealingError(.unsupportedVersion, actual: Int(version), limit: 1))
            }
            #expect(error([]) == SealingError(.malformed))
            #expect(error([1]) == SealingError(.malformed))
        }

        @Test func theErrorNamesAnUnknownKey() throws {
            let error = sealingError { try PayloadOpener(key: SealingKey()).open(sealed()) }
            #expect(error == SealingError(.unknownKey, keyID: key.id))
            #expect(error?.description.contains(key.id.description) == true)
        }

        @Test func payloadsAreReadFromUserInfo() throws {
            let payload = try sealed()
            let alert: [String: Any] = ["alert": "New message", "mutable-content": 1]
            let userInfo: [AnyHashable: Any] = ["aps": alert, "sealed": payload.text, "other": payload.text + "A"]
            #expect(try SealedPayload(userInfo: userInfo) == payload)
            #expect(sealingError { try SealedPayload(userInfo: userInfo, key: "none") }?.code == .notSealed)
            #expect(sealingError { try SealedPayload(userInfo: userInfo, key: "aps") }?.code == .notSealed)
            #expect(sealingError { try SealedPayload(userInfo: ["sealed": 1]) }?.code == .notSealed)
            #expect(sealingError { try SealedPayload(userInfo: ["sealed": "?"]) }?.code == .malformed)
            #expect(sealingError { try SealedPayload(userInfo: [:]) }?.code == .notSealed)
        }

        @Test func payloadsAreReadFromPayloadBytes() throws {
            let payload = try sealed()
            let push = try PushNotification(topic: "com.grasscove.Fern", alert: "New message").badge(3)
                .custom(key: "numbers", [1.5, 2]).custom(key: "e2e", payload).prepared()
            #expect(try SealedPayload(payload: push.payload, key: "e2e") == payload)
            #expect(sealingError { try SealedPayload(payload: push.payload) }?.code == .notSealed)
            #expect(sealingError { try SealedPayload(payload: push.payload, key: "numbers") }?.code == .notSealed)
            for text in ["", "{", "[]", "null", "\"sealed\"", #"{"sealed":null}"#, #"{"sealed":{}}"#] {
                #expect(sealingError { try SealedPayload(payload: Array(text.utf8)) }?.code == .notSealed, "\(text)")
            }
            #expect(sealingError { try SealedPayload(payload: Array(#"{"sealed":""}"#.utf8)) }?.code == .malformed)
        }

        @Test func aPayloadIsCodedAsItsText() throws {
            let payload = try sealed()
            let data = try JSONEncoder().encode(["sealed": payload])
            #expect(String(decoding: data, as: UTF8.self) == #"{"sealed":"\#(payload.text)"}"#)
            #expect(throws: DecodingError.self) {
                try JSONDecoder().decode([SealedPayload].self, from: Data(#"["AAAA"]"#.utf8))
            }
        }
    }
#endif
