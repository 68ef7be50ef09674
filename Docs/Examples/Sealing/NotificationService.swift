import APNSSealing
import UserNotifications

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
