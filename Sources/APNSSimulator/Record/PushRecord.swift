public import APNSModel
internal import APNSTransport

/// One push to a device, or one broadcast, that the simulator received.
public struct PushRecord: Sendable, Hashable {
    /// How a request ended.
    public struct Fate: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        public let rawValue: String

        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        public var description: String { self.rawValue }

        /// A response was sent. Only the client knows whether it arrived.
        public static let responded = Fate(rawValue: "responded")
        /// A script withheld the response permanently.
        public static let stalled = Fate(rawValue: "stalled")
        /// The simulator reset its stream.
        public static let reset = Fate(rawValue: "reset")
        /// Its stream was above the last stream id of a GOAWAY, and it was not processed.
        public static let aboveGoAway = Fate(rawValue: "above-goaway")
        /// Its connection was dropped or silent: the request got no response.
        public static let lost = Fate(rawValue: "lost")
    }

    /// What the client received.
    public enum Outcome: String, Sendable, Hashable, CaseIterable {
        /// The response 200 was sent.
        case accepted
        /// A response with another status was sent.
        case rejected
        /// No response was sent: see `fate`.
        case noResponse = "no-response"
    }

    /// The position among all recorded pushes and broadcasts, from 1. It continues after `Simulator.reset()`, so it can
    /// serve as a cursor.
    public var order: Int
    /// The number of the connection, from 1, in the order of acceptance.
    public var connection: Int
    /// The HTTP/2 stream.
    public var streamID: Int32
    /// The time of the decision.
    public var time: ContinuousClock.Instant
    /// The time of the decision by the system's clock, in milliseconds since 1970.
    public var milliseconds: Int64
    /// The device token in lower case, or the text from the path if it is not a device token. Empty for a broadcast.
    public var deviceToken: String
    /// The channel of a broadcast, from `apns-channel-id`; nil for a push to a device.
    public var channelID: String?
    /// The id that the client sent or the simulator generated; nil if the client sent one that is not a UUID.
    public var apnsID: APNSID?
    /// The value of `apns-topic`, or the bundle ID of a broadcast; nil if the header is missing.
    public var topic: String?
    /// The value of `apns-push-type`; nil if the header is missing.
    public var pushType: PushType?
    /// The number in `apns-priority`; nil if the header is missing or not a number.
    public var priority: Priority?
    /// The number in `apns-expiration`: seconds since 1970; nil if the header is missing.
    public var expiration: Int64?
    /// The value of `apns-collapse-id`; nil if the header is missing.
    public var collapseID: String?
    /// The id of the key that signed the provider token; nil without a well-formed token.
    public var keyID: String?
    /// The team in the provider token; nil without a well-formed token.
    public var teamID: String?
    /// What the simulator tolerated in the provider token; nil if it has Apple's form.
    var tokenNote: InspectedToken.Note?
    /// All fields except pseudo fields and `authorization`.
    var fields = FieldList()
    /// The first 64 KiB of the payload; empty unless the configuration records payloads.
    public var payload: [UInt8]
    /// How many bytes of the payload arrived, up to 64 KiB.
    public var payloadBytes: Int
    /// The status that was sent, or would have been sent; nil if the push was not checked.
    public var status: Int?
    /// The reason that was sent, or would have been sent; nil with 200.
    public var reason: RejectionReason?
    /// How the request ended.
    public var fate: Fate
    /// Whether the decision was 200 to 299: a device would have been notified, whether or not the response arrived.
    public var isProcessed: Bool
    /// The kinds of the faults that applied to it, by their names in scripts.
    public var faults: [String]
    /// How long the response was held back: by faults, and by `Simulator.Configuration.responseDelay`.
    public var delay = Duration.zero
    var responseFields = FieldList()
    /// The first 64 KiB of the response's body; empty unless the configuration records payloads.
    public var responseBody: [UInt8] = []

    /// The alert of the push; nil if it has none, and if the configuration does not record payloads. An alert that is a
    /// text becomes the body, as on a device.
    public var alert: Alert? { PayloadReader.alert(in: self.payload) }

    /// Decodes the payload, to check custom values, the badge or any other key.
    ///
    /// - Parameter type: a type whose properties are the keys to read, `aps` included. Other keys are ignored.
    /// - Returns: the payload as that type, decoded by a plain `JSONDecoder`.
    /// - Throws: `DecodingError` if a key is missing or has another type, and if the configuration does not record
    ///   payloads.
    public func decodePayload<Value: Decodable>(as type: Value.Type) throws -> Value {
        try PayloadReader.decode(type, from: self.payload)
    }

    /// The header fields of the response; empty unless the configuration records payloads.
    public var responseHeaders: [(name: String, value: String)] { self.responseFields.all }

    /// What the client received, derived from `fate` and `status`.
    public var outcome: Outcome {
        guard self.fate == .responded else { return .noResponse }
        return self.status.map { (200..<300).contains($0) } == true ? .accepted : .rejected
    }

    /// The largest payload that APNs accepts for its type, in bytes.
    public var payloadLimit: Int {
        if self.channelID != nil { return PushType.broadcastPayloadLimit }
        return (self.pushType ?? .alert).payloadLimit
    }

    /// All header fields in the order of their arrival, with names in lower case, except pseudo fields and
    /// `authorization`. Empty unless the configuration records payloads.
    public var headers: [(name: String, value: String)] { self.fields.all }
}
