#if Sealing
    // The examples of Docs/Sealing.md and Docs/Examples/Sealing. `make format` copies what stands between `// example` and `// end of
    // example` from there.
    // swift-format-ignore-file

    import APNSModel
    import APNSSealing
    import Foundation

    #if canImport(FoundationNetworking)
        import FoundationNetworking
    #endif
    #if canImport(UserNotifications)
        import UserNotifications
    #endif

    // MARK: Messages, on both sides

    // example Sources/APNSSealing/Documentation.docc/APNSSealing.md
    struct Message: Codable {
        var from: String
        var text: String
    }
    // end of example

    // MARK: The server

    // example Docs/Sealing.md 1
    struct Device {
        var token: String
        var key: SealingKey
    }

    func notify(_ device: Device, of message: Message, with sender: some PushSender) async throws -> PushOutcome {
        let sealed = try PayloadSealer(key: device.key).seal(encoding: message)
        let notification = PushNotification(topic: "com.grasscove.Fern", alert: "New message")
            .mutableContent()
            .custom(key: SealedPayload.defaultKey, sealed)
        return await sender.deliver(notification, to: device.token)
    }
    // end of example

    // The other purposes.

    func wake(_ device: Device, with message: Message, sender: some PushSender) async throws -> PushOutcome {
        let sealed = try PayloadSealer(key: device.key, purpose: .background).seal(encoding: message)
        let notification = PushNotification.background(topic: "com.grasscove.Fern")
            .custom(key: SealedPayload.defaultKey, sealed)
        return await sender.deliver(notification, to: device.token)
    }

    func ring(_ device: Device, with message: Message, sender: some PushSender) async throws -> PushOutcome {
        let sealed = try PayloadSealer(key: device.key, purpose: .call, size: .voip).seal(encoding: message)
        let notification = PushNotification(topic: "com.grasscove.Fern", pushType: .voip)
            .custom(key: SealedPayload.defaultKey, sealed)
        return await sender.deliver(notification, to: device.token)
    }

    // MARK: The extension

    // example Docs/Examples/Sealing/NotificationService.swift
    /// Opens what `APNSSealing` has sealed, before iOS shows the alert.
    final class NotificationService: UNNotificationServiceExtension {
        override func didReceive(
            _ request: UNNotificationRequest,
            withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
        ) {
            do {
                contentHandler(try revealed(request.content))
            } catch {
                // The fallback alert is what the user sees then.
                contentHandler(request.content)
            }
        }

        private func revealed(_ content: UNNotificationContent) throws -> UNNotificationContent {
            var vault = try Vault.load()
            let message = try PayloadOpener(keyring: vault.keyring())
                .open(SealedPayload(userInfo: content.userInfo), admittedBy: &vault.window)
                .decoded(as: Message.self)
            try vault.save()
            guard let revealed = content.mutableCopy() as? UNMutableNotificationContent else { return content }
            revealed.title = message.from
            revealed.body = message.text
            return revealed
        }
    }
    // end of example

    // example Docs/Examples/Sealing/Vault.swift
    /// What the app and its extension share: the keys, and which messages came.
    struct Vault: Codable {
        struct StoredKey: Codable {
            var id: SealingKeyID
            var secret: Data
            var acceptedUntil: Date?
        }

        var keys: [StoredKey] = []
        var window = ReplayWindow()

        func keyring() throws -> SealingKeyring {
            SealingKeyring(
                entries: try keys.map { stored in
                    SealingKeyring.Entry(
                        key: try SealingKey(id: stored.id, rawRepresentation: Array(stored.secret)),
                        acceptedUntil: stored.acceptedUntil
                    )
                }
            )
        }

        mutating func keep(_ keyring: SealingKeyring) {
            keys = keyring.entries.map { entry in
                StoredKey(
                    id: entry.key.id,
                    secret: Data(entry.key.rawRepresentation),
                    acceptedUntil: entry.acceptedUntil
                )
            }
        }

        static func load() throws -> Vault {
            try JSONDecoder().decode(Vault.self, from: SharedKeychain.data())
        }

        func save() throws {
            try SharedKeychain.replace(with: JSONEncoder().encode(self))
        }
    }
    // end of example

    // MARK: Rotation

    // example Docs/Sealing.md 2-3
    /// On the server, when a device asks for a key: what it sends is the device's public key.
    func register(_ devicePublicKey: SealingPublicKey, account: String) throws -> (SealingPublicKey, SealingKey) {
        let pair = SealingKeyPair()
        let key = try pair.agree(with: devicePublicKey, as: .server, context: "com.grasscove.Fern/\(account)")
        // Kept beside the current key until the device confirms its id; the private key is forgotten here.
        return (pair.publicKey, key)
    }

    /// On the device, with the server's response to `pair.publicKey`.
    func adopt(
        _ serverPublicKey: SealingPublicKey,
        pair: SealingKeyPair,
        account: String,
        now: Date
    ) throws -> SealingKeyID {
        let key = try pair.agree(with: serverPublicKey, as: .device, context: "com.grasscove.Fern/\(account)")
        var vault = try Vault.load()
        var keyring = try vault.keyring()
        keyring.removeExpired(at: now)
        keyring.rotate(to: key, at: now)
        vault.keep(keyring)
        try vault.save()
        // To be confirmed to the server, which seals with this key from then on.
        return key.id
    }
    // end of example

    // MARK: Web Push

    // example Docs/Examples/Sealing/Subscriptions.swift
    /// What the app and its extension share: the keys and the secret of each subscription, and which messages came.
    enum Subscriptions {
        static let gateway = URL(string: "https://push.example.com")!

        static func keys(of subscription: String) throws -> WebPushKeys? {
            let data = try SharedKeychain.data("web-push-\(subscription)")
            return data.isEmpty ? nil : try WebPushKeys(rawRepresentation: Array(data))
        }

        static func store(_ keys: WebPushKeys, of subscription: String) throws {
            try SharedKeychain.replace("web-push-\(subscription)", with: Data(keys.rawRepresentation))
        }

        static func fetchSecret(of subscription: String) throws -> String {
            String(decoding: try SharedKeychain.data("web-push-secret-\(subscription)"), as: UTF8.self)
        }

        static func store(fetchSecret: String, of subscription: String) throws {
            try SharedKeychain.replace("web-push-secret-\(subscription)", with: Data(fetchSecret.utf8))
        }

        static func seen() throws -> SeenWebPushes {
            let data = try SharedKeychain.data("web-push-seen")
            return data.isEmpty ? SeenWebPushes() : try JSONDecoder().decode(SeenWebPushes.self, from: data)
        }

        /// Only the extension changes this item.
        static func store(_ seen: SeenWebPushes) throws {
            try SharedKeychain.replace("web-push-seen", with: JSONEncoder().encode(seen))
        }
    }

    /// Returns what the server needs besides the endpoint.
    func subscribe(_ subscription: String, fetchSecret: String) throws -> (p256dh: String, auth: String) {
        let keys = WebPushKeys()
        try Subscriptions.store(keys, of: subscription)
        try Subscriptions.store(fetchSecret: fetchSecret, of: subscription)
        return (keys.p256dh, keys.auth)
    }
    // end of example

    // example Docs/Examples/Sealing/WebPushService.swift
    /// Opens messages of Web Push, and fetches those that are too large for a notification.
    final class WebPushService: UNNotificationServiceExtension {
        private var fetching: Task<Void, Never>?

        override func didReceive(
            _ request: UNNotificationRequest,
            withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
        ) {
            // If anything fails, the user sees the fallback alert.
            guard let kept = KeptWebPushMessage(userInfo: request.content.userInfo) else {
                let message = try? WebPushMessage(userInfo: request.content.userInfo)
                return contentHandler(Self.revealed(request.content, message) ?? request.content)
            }
            // Nothing else uses them until the task has ended.
            nonisolated(unsafe) let (content, handler) = (request.content, contentHandler)
            fetching = Task {
                let shown = Self.revealed(content, try? await MessageKeeper.fetch(kept))
                // Makes room for the next message: the gateway keeps a limited number for each subscription.
                if shown != nil { try? await MessageKeeper.discard(kept) }
                handler(shown ?? content)
            }
        }

        /// The task ends with the fallback alert.
        override func serviceExtensionTimeWillExpire() {
            fetching?.cancel()
        }

        /// Nil if there is no message, no key for it, or it does not open.
        private static func revealed(
            _ content: UNNotificationContent,
            _ message: WebPushMessage?
        ) -> UNNotificationContent? {
            guard let message else { return nil }
            return try? opened(content, message)
        }

        private static func opened(
            _ content: UNNotificationContent,
            _ message: WebPushMessage
        ) throws -> UNNotificationContent? {
            guard let keys = try Subscriptions.keys(of: message.subscription) else { return nil }
            var seen = try Subscriptions.seen()
            let bytes = try WebPushOpener(keys: keys).open(message, unless: &seen)
            try Subscriptions.store(seen)
            guard let revealed = content.mutableCopy() as? UNMutableNotificationContent else { return nil }
            let note = try JSONDecoder().decode(Note.self, from: Data(bytes))
            revealed.title = note.title
            revealed.body = note.body
            return revealed
        }

        /// The sender's format. This is Mastodon's, as far as an alert needs it.
        private struct Note: Decodable {
            var title: String
            var body: String
        }
    }
    // end of example

    // example Docs/Examples/Sealing/MessageKeeper.swift
    /// The gateway, as far as it keeps messages that are too large for a notification.
    enum MessageKeeper {
        static func fetch(_ kept: KeptWebPushMessage) async throws -> WebPushMessage {
            let (body, _) = try await URLSession.shared.data(for: request("GET", kept))
            return try WebPushMessage(fetched: Array(body))
        }

        static func discard(_ kept: KeptWebPushMessage) async throws {
            _ = try await URLSession.shared.data(for: request("DELETE", kept))
        }

        private static func request(_ method: String, _ kept: KeptWebPushMessage) throws -> URLRequest {
            var request = URLRequest(url: Subscriptions.gateway.appendingPathComponent(kept.path))
            request.httpMethod = method
            let secret = try Subscriptions.fetchSecret(of: kept.subscription)
            request.setValue("Bearer \(secret)", forHTTPHeaderField: "authorization")
            return request
        }
    }
// end of example
#endif
