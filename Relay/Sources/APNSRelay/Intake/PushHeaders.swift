@_spi(Relay) import APNSModel
import PushQueue

/// The member `headers` of a submitted push.
struct PushHeaders {
    private enum Name: String, CaseIterable {
        case pushType = "apns-push-type"
        case topic = "apns-topic"
        case priority = "apns-priority"
        case expiration = "apns-expiration"
        case collapseID = "apns-collapse-id"
        case id = "apns-id"

        /// The header's bit in a set of headers.
        var bit: UInt8 {
            switch self {
            case .pushType: 1
            case .topic: 2
            case .priority: 4
            case .expiration: 8
            case .collapseID: 16
            case .id: 32
            }
        }
    }

    private(set) var pushType: PushType
    /// The caller's topic; nil for the app's topic.
    private(set) var topic: String?
    private(set) var priority: Priority?
    private(set) var expiration: Expiration = .systemDefault
    private(set) var collapseID: CollapseID?
    private(set) var id: APNSID?

    /// - Parameters:
    ///   - slice: the value of the member.
    ///   - scanner: the scanner that found it.
    init(_ slice: JSONScanner.Slice, _ scanner: JSONScanner) throws(PushFault) {
        guard slice.kind == .object else { throw .invalid("headers", "expected a JSON object") }
        var members: [JSONScanner.Member] = []
        members.reserveCapacity(Name.allCases.count)
        var inner = JSONScanner(scanner.bytes, in: slice.range)
        do {
            try inner.object(into: &members)
        } catch {
            throw PushFault(.badJSON, "headers", error.description)
        }
        var seen: UInt8 = 0
        var pushType: PushType?
        for member in members {
            let key = scanner.text(member.key)
            guard let name = Name(rawValue: key) else {
                throw .invalid(
                    Self.field(key),
                    "unknown header; expected only \(Name.allCases.map(\.rawValue).joined(separator: ", "))"
                )
            }
            guard seen & name.bit == 0 else { throw .invalid(Self.field(key), "this header must occur only once") }
            seen |= name.bit
            let text = try Self.text(member.value, scanner, key)
            switch name {
            case .pushType: pushType = PushType(rawValue: text)
            case .topic: self.topic = text
            case .priority: self.priority = Priority(rawValue: Int(try Self.integer(text, key)))
            case .expiration:
                let seconds = try Self.integer(text, key)
                self.expiration = seconds == 0 ? .immediate : .at(secondsSince1970: seconds)
            case .collapseID:
                do {
                    self.collapseID = try CollapseID(text)
                } catch {
                    throw .invalid(Self.field(key), error.description)
                }
            case .id:
                guard let id = APNSID(text) else {
                    throw .invalid(Self.field(key), "expected a UUID of 8-4-4-4-12 hexadecimal digits")
                }
                self.id = id
            }
        }
        guard let pushType else { throw .invalid("headers.apns-push-type", "this header is missing") }
        self.pushType = pushType
    }

    /// The name of a header in an error.
    private static func field(_ key: String) -> String { "headers.\(printable(key))" }

    /// A header's value: a string or an integer.
    private static func text(
        _ slice: JSONScanner.Slice,
        _ scanner: JSONScanner,
        _ key: String
    ) throws(PushFault) -> String {
        switch slice.kind {
        case .string: return scanner.text(slice)
        case .number:
            let text = scanner.text(slice)
            if text.utf8.allSatisfy({ $0 == UInt8(ascii: "-") || $0 &- 0x30 <= 9 }) { return text }
        default: break
        }
        throw .invalid(Self.field(key), "expected a string or an integer")
    }

    private static func integer(_ text: String, _ key: String) throws(PushFault) -> Int64 {
        guard text.utf8.first != UInt8(ascii: "+"), let number = Int64(text) else {
            throw .invalid(Self.field(key), "expected an integer of at most 64 bits")
        }
        return number
    }

    /// The push with these headers.
    ///
    /// - Parameters:
    ///   - app: the app. The header may extend its topic by a dot and a suffix.
    ///   - payload: the bytes of the payload.
    func push(for app: RelayApp, payload: [UInt8]) throws(ValidationError) -> PreparedPush {
        let topic = self.topic ?? app.topic + self.pushType.topicSuffix
        guard RelayApp.covers(topic, bundleID: app.topic) else {
            throw ValidationError(
                code: .topicInvalid,
                field: "apns-topic",
                value: "expected \(app.topic), or a topic that begins with it and a dot"
            )
        }
        return try PreparedPush(
            topic: topic,
            pushType: self.pushType,
            payload: payload,
            priority: self.priority,
            expiration: self.expiration,
            collapseID: self.collapseID
        )
    }
}
