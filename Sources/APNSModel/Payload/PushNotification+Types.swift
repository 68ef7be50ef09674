// One function for each push type. Its parameters are the fields that the type requires. Without a topic, the sender's
// default topic applies; only MDM needs another one, that of its certificate.
extension PushNotification {
    /// A background push: `content-available`, priority 5 and nothing that the user notices. You may add custom values.
    ///
    /// Source: Apple, "Pushing background updates to your App".
    public static func background(topic: String? = nil) -> PushNotification {
        PushNotification(topic: topic, pushType: .background).contentAvailable()
    }

    /// An incoming call for PushKit, sent to the app's VoIP token, up to 5,120 bytes. Put the app's data into custom
    /// values. Not stored by default, and always priority 10.
    ///
    /// Source: Apple, "Responding to VoIP Notifications from PushKit".
    public static func voip(topic: String? = nil) -> PushNotification {
        PushNotification(topic: topic, pushType: .voip)
    }

    /// An update for a watchOS complication, sent to its PushKit token. Put its data into custom values.
    ///
    /// Source: Apple, "Keeping your complications up to date".
    public static func complication(topic: String? = nil) -> PushNotification {
        PushNotification(topic: topic, pushType: .complication)
    }

    /// Notifies the system that files of a File Provider have changed.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID; the suffix is added. Nil: the sender's default.
    ///   - containerIdentifier: the container that has changed. A replicated extension always uses the working set, the
    ///     default.
    ///   - domain: the provider's domain, if it has several.
    ///
    /// Source: Apple, "Using push notifications to signal changes".
    public static func fileProvider(
        topic: String? = nil,
        containerIdentifier: String = "NSFileProviderWorkingSetContainerItemIdentifier",
        domain: String? = nil
    ) -> PushNotification {
        let notification = PushNotification(topic: topic, pushType: .fileprovider)
            .custom(key: "container-identifier", containerIdentifier)
        guard let domain else { return notification }
        return notification.custom(key: "domain", domain)
    }

    /// Makes a managed device request commands from its server.
    ///
    /// - Parameters:
    ///   - topic: the UID of the MDM push certificate, `com.apple.mgmt.…`.
    ///   - pushMagic: the value from the device's TokenUpdate message.
    ///
    /// Source: Apple, "Sending MDM commands to a device".
    public static func mdm(topic: String, pushMagic: String) -> PushNotification {
        PushNotification(topic: topic, pushType: .mdm).custom(key: "mdm", pushMagic)
    }

    /// Asks the app's Location Push extension for the device's location. Send it to the token for location pushes.
    /// Needs a provider token; certificates are rejected.
    ///
    /// Source: Apple, "Creating a location push service extension".
    public static func location(topic: String? = nil) -> PushNotification {
        PushNotification(topic: topic, pushType: .location)
    }

    /// An event in a Push to Talk channel, sent to its ephemeral token. Put the app's data, such as the speaker, into
    /// custom values. Not stored by default, and always priority 10.
    ///
    /// Source: Apple, "Creating a Push to Talk app".
    public static func pushToTalk(topic: String? = nil) -> PushNotification {
        PushNotification(topic: topic, pushType: .pushtotalk)
    }

    /// A service update in a Push to Talk channel (iOS 17.2). It shows no active speaker.
    ///
    /// Source: Apple's engineers in the developer forums; the articles do not describe it.
    public static func pushToTalkServiceUpdate(topic: String? = nil) -> PushNotification {
        var notification = self.pushToTalk(topic: topic)
        notification.content.changeRare { $0.pushToTalk = "service-update" }
        return notification
    }

    /// Makes WidgetKit reload the app's widgets.
    ///
    /// Source: Apple, "Updating widgets with WidgetKit push notifications".
    public static func widgets(topic: String? = nil) -> PushNotification {
        PushNotification(topic: topic, pushType: .widgets).contentChanged()
    }

    /// Makes WidgetKit reload the app's controls (iOS 18).
    ///
    /// Source: Apple, "Updating controls locally and remotely".
    public static func controls(topic: String? = nil) -> PushNotification {
        PushNotification(topic: topic, pushType: .controls).contentChanged()
    }

    /// A notification forwarded to an accessory (iOS 26.5), encrypted for it.
    ///
    /// - Parameters:
    ///   - topic: the app's bundle ID; the suffix is added. Nil: the sender's default.
    ///   - encryptedData: the encrypted message, as text.
    ///   - sessionIdentifier: the session for which it is encrypted.
    ///   - keyID: the key with which it is encrypted.
    ///   - messageIndex: the index of the message, written as decimal text as in Apple's documentation.
    ///
    /// Source: Apple, documentation of AccessoryTransportExtension.
    public static func accessory(
        topic: String? = nil,
        encryptedData: String,
        sessionIdentifier: String,
        keyID: String,
        messageIndex: UInt64
    ) -> PushNotification {
        var notification = PushNotification(topic: topic, pushType: .accessory)
        notification.content.changeRare {
            $0.accessory = AccessoryContent(
                encryptedData: encryptedData,
                sessionIdentifier: sessionIdentifier,
                keyID: keyID,
                messageIndex: messageIndex
            )
        }
        return notification
    }
}
