import APNSPool
import ArgumentParser

/// The headers of a push.
struct HeaderOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "alert, background, voip, liveactivity, location, widgets, …; default alert.",
            valueName: "type"
        ),
        completion: .list([
            "alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location", "mdm",
            "pushtotalk", "voip", "widgets",
        ])
    )
    var pushType: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("10 (at once), 5 or 1.", valueName: "n"),
        completion: .list(["10", "5", "1"])
    )
    var priority: String?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "The time until which APNs keeps the push for a device that it cannot reach: seconds since 1970, +SECONDS "
                + "from now, or 0 for one attempt only.",
            valueName: "time"
        )
    )
    var expiration: String?

    @Option(help: ArgumentHelp("Pushes with the same id replace each other on the device.", valueName: "id"))
    var collapseID: String?

    var type: PushType { PushType(rawValue: self.pushType ?? "alert") }

    func validate() throws {
        _ = try self.values(now: 0)
    }

    private func values(now: Int64) throws -> HeaderValues {
        try HeaderValues(priority: self.priority, expiration: self.expiration, now: now)
    }

    /// The notification with these headers, encoded and checked.
    func prepared(_ notification: PushNotification) throws -> PreparedPush {
        var notification = try self.values(now: WallTime.now).applied(to: notification)
        if let collapseID { notification = notification.collapseID(collapseID) }
        do {
            return try notification.prepared()
        } catch {
            throw UsageError("The notification cannot be sent: \(error).")
        }
    }

    /// A payload that is sent unchanged.
    func prepared(topic: String, payload: [UInt8]) throws -> PreparedPush {
        try self.prepared(PushNotification(topic: topic, pushType: self.type, rawPayload: payload))
    }
}

/// Headers with a numeric value.
struct HeaderValues: Sendable {
    private var priority: Priority?
    private var expiration: Expiration?

    /// - Parameter now: seconds since 1970.
    init(priority: String?, expiration: String?, now: Int64) throws {
        if let priority {
            self.priority = Priority(rawValue: try wholeNumber(priority, "--priority", 1...10))
        }
        if let text = expiration {
            guard let seconds = Int64(text), seconds >= 0, seconds <= 99_999_999_999 else {
                throw UsageError(
                    "--expiration: '\(text)' is neither seconds since 1970, nor +SECONDS from now, nor 0."
                )
            }
            if text.hasPrefix("+") {
                self.expiration = .at(secondsSince1970: now + seconds)
            } else {
                self.expiration = seconds == 0 ? .immediate : .at(secondsSince1970: seconds)
            }
        }
    }

    func applied(to notification: PushNotification) -> PushNotification {
        var notification = notification
        if let priority { notification = notification.priority(priority) }
        if let expiration { notification = notification.expiration(expiration) }
        return notification
    }
}
