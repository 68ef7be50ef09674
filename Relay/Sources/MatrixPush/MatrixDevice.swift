public import APNSModel

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A device in a request of a homeserver.
public struct MatrixDevice: Sendable, Hashable {
    /// The app, as the client has named it to its homeserver.
    public let appID: String
    /// The device, as the client has named it to its homeserver.
    public let pushkey: String
    /// When the homeserver got the pushkey, in seconds since 1970; nil if it does not say.
    public let pushkeyTime: Int64?
    /// What the client wants in each payload; nil if it is not an object.
    let defaultPayload: [String: MatrixJSON]?
    /// The name of the sound that a push rule sets.
    let sound: String?

    /// - Throws: `MatrixPushError.Code.malformed`.
    init(_ json: MatrixJSON) throws(MatrixPushError) {
        self.appID = try json.required("app_id", \.text)
        self.pushkey = try json.required("pushkey", \.text)
        // The rest is not worth a refusal: homeservers repeat a refused request for a day.
        self.pushkeyTime = json["pushkey_ts"]?.integer
        self.defaultPayload = json["data"]?["default_payload"]?.members
        self.sound = json["tweaks"]?["sound"]?.text
    }

    /// The device token. Clients use its bytes in base64 as pushkey, and some use hexadecimal digits.
    ///
    /// - Throws: `MatrixPushError.Code.invalidPushkey`.
    public func token() throws(MatrixPushError) -> DeviceToken {
        // A token of 32 bytes in base64 is practically never made of hexadecimal digits only.
        if let token = try? DeviceToken(self.pushkey) { return token }
        let text = self.pushkey.filter { $0 != "=" }
        let padding = String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        if let bytes = Data(base64Encoded: text + padding) {
            let digits = bytes.map { byte in
                String(byte >> 4, radix: 16) + String(byte & 15, radix: 16)
            }
            if let token = try? DeviceToken(digits.joined()) { return token }
        }
        throw MatrixPushError(.invalidPushkey, "The pushkey is not a device token in base64 or hexadecimal digits.")
    }
}
