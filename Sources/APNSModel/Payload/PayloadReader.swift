#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Reads the parts of a payload that was written by this library or by another one.
package enum PayloadReader {
    /// The alert in `aps`; nil if there is none, and for bytes that are not a JSON object.
    ///
    /// An alert that is a text becomes the body, as on a device. In the form that ActivityKit reads, the localisation
    /// inside `title` and `body` becomes `titleLocKey`, `locKey` and their arguments.
    package static func alert(in payload: [UInt8]) -> Alert? {
        switch JSONValue(json: payload)?.members?["aps"]?.members?["alert"] {
        case .string(let text): Alert(body: text)
        case .some(let value): value.members.map(Alert.init(members:))
        case nil: nil
        }
    }

    /// Decodes the whole payload with a plain `JSONDecoder`.
    package static func decode<Value: Decodable>(_ type: Value.Type, from payload: [UInt8]) throws -> Value {
        try JSONDecoder().decode(type, from: Data(payload))
    }
}

extension Alert {
    fileprivate init(members: [String: JSONValue]) {
        func text(_ key: String) -> String? {
            if case .string(let text) = members[key] { text } else { nil }
        }
        func texts(_ value: JSONValue?) -> [String]? {
            guard case .array(let values) = value else { return nil }
            return values.compactMap { if case .string(let text) = $0 { text } else { nil } }
        }
        /// The key and the arguments of a line, in either form.
        func localisation(_ line: String, _ prefix: String) -> (key: String?, arguments: [String]?) {
            guard let inner = members[line]?.members else {
                return (text("\(prefix)-key"), texts(members["\(prefix)-args"]))
            }
            guard case .string(let key) = inner["loc-key"] else { return (nil, texts(inner["loc-args"])) }
            return (key, texts(inner["loc-args"]))
        }
        let title = localisation("title", "title-loc")
        let body = localisation("body", "loc")
        self.init(
            title: text("title"),
            subtitle: text("subtitle"),
            body: text("body"),
            launchImage: text("launch-image"),
            titleLocKey: title.key,
            titleLocArgs: title.arguments,
            subtitleLocKey: text("subtitle-loc-key"),
            subtitleLocArgs: texts(members["subtitle-loc-args"]),
            locKey: body.key,
            locArgs: body.arguments
        )
    }
}

extension PreparedPush {
    /// The alert in the payload, for tests and logs; nil if there is none, and for a payload that is not a JSON object.
    ///
    /// ```swift
    /// let push = try PushNotification(topic: "com.grasscove.Fern", alert: "Hey There").prepared()
    /// print(push.alert?.body ?? "")  // Hey There
    /// ```
    ///
    /// An alert that is a text becomes the body, as on a device. The payload is parsed each time.
    public var alert: Alert? { PayloadReader.alert(in: self.payload) }

    /// Decodes the payload, for tests that check custom values, the badge or any other key.
    ///
    /// - Parameter type: a type whose properties are the keys to read, `aps` included. Other keys are ignored.
    /// - Returns: the payload as that type, decoded by a plain `JSONDecoder`.
    /// - Throws: `DecodingError` if a key is missing or has another type.
    public func decodePayload<Value: Decodable>(as type: Value.Type) throws -> Value {
        try PayloadReader.decode(type, from: self.payload)
    }
}
