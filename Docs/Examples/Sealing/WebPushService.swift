import APNSSealing
import Foundation
import UserNotifications

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
