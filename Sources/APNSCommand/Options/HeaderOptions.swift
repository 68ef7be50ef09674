import APNSPool
import ArgumentParser

/// The headers of a push.
struct HeaderOptions: ParsableArguments {
    private static let knownTypes = PushType.known.map(\.rawValue).sorted()

    @Option(
        help: ArgumentHelp(
            "\(Self.knownTypes.joined(separator: ", ")); default alert.",
            valueName: "type"
        ),
        completion: .list(Self.knownTypes)
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
                + "from the start of the command, or 0 for one attempt only.",
            valueName: "time"
        )
    )
    var expiration: String?

    @Option(help: ArgumentHelp("Pushes with the same id replace each other on the device.", valueName: "id"))
    var collapseID: String?

    var type: PushType { PushType(rawValue: self.pushType ?? "alert") }

    func validate() throws {
        _ = try self.values(now: WallTime.now)
    }

    private func values(now: Int64) throws -> HeaderValues {
        try HeaderValues(priority: self.priority, expiration: self.expiration, now: now)
    }

    /// The notification with these headers, encoded and checked.
    ///
    /// - Parameter payload: the payload that is sent unchanged, if there is one.
    func prepared(_ notification: PushNotification, payload: [UInt8]? = nil) throws -> PreparedPush {
        var notification = try self.values(now: WallTime.now).applied(to: notification)
        if let collapseID { notification = notification.collapseID(collapseID) }
        do {
            return try notification.prepared()
        } catch {
            throw UsageError("The notification cannot be sent: \(error).\(Payload.blanksNote(error, payload))")
        }
    }

    /// A payload that is sent unchanged.
    func prepared(topic: String, payload: [UInt8]) throws -> PreparedPush {
        try self.prepared(PushNotification(topic: topic, pushType: self.type, rawPayload: payload), payload: payload)
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
            self.expiration = try Self.expiration(text, now: now)
        }
    }

    private static func expiration(_ text: String, now: Int64) throws -> Expiration {
        guard let seconds = Int64(text), seconds >= 0 else {
            throw UsageError("--expiration: '\(text)' is neither seconds since 1970, nor +SECONDS from now, nor 0.")
        }
        let isRelative = text.hasPrefix("+")
        let time = isRelative ? now.addingReportingOverflow(seconds).partialValue : seconds
        let latest = Expiration.latestSeconds
        if !isRelative, seconds > latest, seconds / 1000 <= latest {
            throw UsageError(
                "--expiration: '\(text)' is in milliseconds. Give seconds since 1970: \(seconds / 1000)."
            )
        }
        // Seconds since 1970 have ten digits since 2001.
        if isRelative, (1_000_000_000...latest).contains(seconds) {
            throw UsageError("--expiration: '\(text)' is a time, not a number of seconds from now. Leave out the '+'.")
        }
        guard (0...latest).contains(time) else {
            throw UsageError(
                "--expiration: '\(text)' is too far in the future. Give +SECONDS from now, such as +3600, or seconds "
                    + "since 1970."
            )
        }
        if seconds == 0, !isRelative { return .immediate }
        guard time >= now else {
            // APNs keeps a push for at most 30 days. A number up to that is meant from now.
            let hint = seconds <= 30 * 86_400 ? "+\(seconds) for \(seconds) seconds from now" : "a time in the future"
            throw UsageError(
                "--expiration: '\(text)' is in the past: it means seconds since 1970. Give \(hint), or 0 for one attempt "
                    + "only."
            )
        }
        return .at(secondsSince1970: time)
    }

    func applied(to notification: PushNotification) -> PushNotification {
        var notification = notification
        if let priority { notification = notification.priority(priority) }
        if let expiration { notification = notification.expiration(expiration) }
        return notification
    }
}
