#if Sealing
    import APNSPool
    import APNSSealing
    import APNSSimulator
    import Foundation
    import Testing

    @testable import APNSPoolTestSupport

    /// The documented examples from end to end: the two sides agree on a key, seal a message and send it through a
    /// client to the simulator. The documented extension opens the payload that the simulator received.
    struct EndToEndTests {
        private let message = Message(from: "Ada", text: "At eight, by the fern?")
        private let account = "user/4711"
        private static let token = String(repeating: "ab", count: 32)

        /// A push that the simulator received, in the form that a device gets.
        private func received(_ simulator: Simulator, _ index: Int = 0) throws -> (
            payload: [UInt8], userInfo: [AnyHashable: Any]
        ) {
            let pushes = simulator.record.pushes
            try #require(pushes.count > index)
            let payload = pushes[index].payload
            let userInfo = try JSONSerialization.jsonObject(with: Data(payload)) as? [AnyHashable: Any]
            return (payload, try #require(userInfo))
        }

        /// A device with an empty vault agrees on a key with the server.
        private func registered(now: Date = Date()) throws -> Device {
            if try SharedKeychain.data().isEmpty { try Vault().save() }
            let pair = SealingKeyPair()
            let (serverPublicKey, key) = try register(pair.publicKey, account: account)
            let confirmed = try adopt(serverPublicKey, pair: pair, account: account, now: now)
            #expect(confirmed == key.id)
            return Device(token: Self.token, key: key)
        }

        #if !canImport(UserNotifications)
            /// The content that the user sees.
            private func shown(_ userInfo: [AnyHashable: Any]) -> UNNotificationContent? {
                var result: UNNotificationContent?
                let request = UNNotificationRequest(title: "", body: "New message", userInfo: userInfo)
                NotificationService().didReceive(request) { result = $0 }
                return result
            }

            @Test func aSealedMessageArrivesAndIsShownOnce() async throws {
                try await SharedKeychain.$items.withValue(SharedKeychain.Items()) {
                    let device = try registered()
                    try await withPatientSimulator { client, simulator in
                        let outcome = try await notify(device, of: message, with: client)
                        #expect(outcome.certainty == .accepted)
                        let (payload, userInfo) = try received(simulator)

                        // Apple sees the fallback alert and nothing of the message.
                        let seen = String(decoding: payload, as: UTF8.self)
                        #expect(seen.contains(#""alert":"New message""#))
                        #expect(seen.contains(#""mutable-content":1"#))
                        // Base64 text may contain the letters of the title, but no quotation marks.
                        #expect(!seen.contains(#""Ada""#) && !seen.contains("fern?"))
                        #expect(payload.count == SealedSize.standard.textCount + 63)

                        let content = try #require(shown(userInfo))
                        #expect(content.title == "Ada")
                        #expect(content.body == "At eight, by the fern?")

                        // APNs may deliver the same push twice. The second copy shows the fallback.
                        let again = try #require(shown(userInfo))
                        #expect(again.title == "")
                        #expect(again.body == "New message")
                    }
                }
            }

            @Test func anUnopenedMessageShowsTheFallback() async throws {
                try await SharedKeychain.$items.withValue(SharedKeychain.Items()) {
                    let device = try registered()
                    let stranger = Device(token: device.token, key: SealingKey())
                    try await withPatientSimulator { client, simulator in
                        _ = try await notify(stranger, of: message, with: client)
                        #expect(shown(try received(simulator).userInfo)?.body == "New message")
                    }
                    #expect(shown([:])?.body == "New message")
                }
            }

            @Test func bothKeysOpenAcrossARotation() async throws {
                try await SharedKeychain.$items.withValue(SharedKeychain.Items()) {
                    let before = try registered()
                    try await withPatientSimulator { client, simulator in
                        _ = try await notify(before, of: message, with: client)
                        let after = try registered()
                        #expect(after.key.id != before.key.id)
                        _ = try await notify(after, of: message, with: client)
                        // The push that was sealed before the rotation arrives after it.
                        #expect(shown(try received(simulator, 0).userInfo)?.title == "Ada")
                        #expect(shown(try received(simulator, 1).userInfo)?.title == "Ada")
                        // After the overlap the old key is forgotten.
                        _ = try registered(now: Date().addingTimeInterval(32 * 86_400))
                        #expect(try Vault.load().keyring().key(before.key.id, at: .distantPast) == nil)
                    }
                }
            }
        #endif

        @Test func messagesOpenOnlyForTheirPurpose() async throws {
            let device = Device(token: Self.token, key: SealingKey())
            try await withPatientSimulator { client, simulator in
                #expect(try await wake(device, with: message, sender: client).certainty == .accepted)
                #expect(try await ring(device, with: message, sender: client).certainty == .accepted)
                let pushes = simulator.record.pushes
                #expect(pushes.map(\.pushType) == [.background, .voip])
                for (push, purpose) in zip(pushes, [SealingPurpose.background, .call]) {
                    let sealed = try SealedPayload(payload: push.payload)
                    let opened = try PayloadOpener(key: device.key, purpose: purpose).open(sealed)
                    #expect(try opened.decoded(as: Message.self).text == message.text)
                    let error = #expect(throws: SealingError.self) { try PayloadOpener(key: device.key).open(sealed) }
                    #expect(error?.code == .notAuthentic)
                }
            }
        }

        /// A resent push carries the same sealed message, so the device recognises a second copy.
        @Test func aResentPushCarriesTheSameMessage() async throws {
            let device = Device(token: Self.token, key: SealingKey())
            let sealed = try PayloadSealer(key: device.key).seal(encoding: message)
            let push = try PushNotification(topic: "com.grasscove.Fern", alert: "New message").mutableContent()
                .custom(key: SealedPayload.defaultKey, sealed).prepared()
            try await withPatientSimulator { client, simulator in
                _ = await client.deliver(push, to: device.token)
                _ = await client.deliver(push, to: device.token)
                var window = ReplayWindow()
                let opener = PayloadOpener(key: device.key)
                let payloads = try simulator.record.pushes.map { try SealedPayload(payload: $0.payload) }
                try #require(payloads.count == 2)
                _ = try opener.open(payloads[0], admittedBy: &window)
                let error = #expect(throws: SealingError.self) { try opener.open(payloads[1], admittedBy: &window) }
                #expect(error?.code == .replayed)
            }
        }
    }
#endif
