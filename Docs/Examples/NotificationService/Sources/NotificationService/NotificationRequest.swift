import APNSPool

/// The body of `POST /notifications`:
///
///     {"deviceToken": string, "topic": string,
///      "title": string?, "body": string?,        an alert, or
///      "payload": object?,                       the whole payload as it is to be sent; then "pushType" is needed
///      "pushType": string?, "priority": number?, "collapseID": string?, "expiration": seconds since 1970?,
///      "id": UUID?,                              the apns-id; send the same one again when you repeat a request
///      "deadlineSeconds": number?}               how long this may take in all
struct NotificationRequest: Decodable {
    var deviceToken: String
    var notification: PushNotification
    var id: APNSID?
    var deadline: Duration?

    private enum CodingKeys: String, CodingKey {
        case deviceToken, topic, title, body, payload, pushType, priority, collapseID, expiration, id, deadlineSeconds
    }

    init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        self.deviceToken = try fields.decode(String.self, forKey: .deviceToken)
        self.id = try fields.decodeIfPresent(APNSID.self, forKey: .id)
        if let seconds = try fields.decodeIfPresent(Double.self, forKey: .deadlineSeconds) {
            guard seconds > 0, seconds <= 3600 else {
                throw DecodingError.dataCorruptedError(
                    forKey: .deadlineSeconds,
                    in: fields,
                    debugDescription: "more than 0 and at most 3600"
                )
            }
            self.deadline = .milliseconds(Int64(seconds * 1_000))
        }
        if fields.contains(.payload) {
            // A notification's own coded form has the same keys.
            self.notification = try PushNotification(from: decoder)
            return
        }
        var notification = PushNotification(
            topic: try fields.decode(String.self, forKey: .topic),
            alert: Alert(
                title: try fields.decodeIfPresent(String.self, forKey: .title),
                body: try fields.decodeIfPresent(String.self, forKey: .body)
            )
        )
        if let priority = try fields.decodeIfPresent(Priority.self, forKey: .priority) {
            notification = notification.priority(priority)
        }
        if let expiration = try fields.decodeIfPresent(Expiration.self, forKey: .expiration) {
            notification = notification.expiration(expiration)
        }
        if let collapseID = try fields.decodeIfPresent(String.self, forKey: .collapseID) {
            notification = notification.collapseID(collapseID)
        }
        if let type = try fields.decodeIfPresent(PushType.self, forKey: .pushType), type != .alert {
            throw DecodingError.dataCorruptedError(
                forKey: .pushType,
                in: fields,
                debugDescription: "a push of another type than alert needs a payload"
            )
        }
        self.notification = notification
    }
}
