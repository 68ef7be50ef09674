import APNSPool

/// The custom field of the sample notification.
struct Acme: Encodable, Sendable {
    var acme2: [String]
}

/// What is sent: one notification whose body can be padded to a given payload size.
struct Workload: Sendable {
    /// The sample of Apple's documentation.
    static let sampleBody = "Did you see it?"

    /// Of what makes each body another one: always as long, so that all payloads are.
    private static let numberBase: UInt64 = 1_000_000_000_000

    let topic: String
    private let body: String
    private let isDistinct: Bool
    /// Whether it has the sample's subtitle and custom field, too. One of a given size has a title and a body only, so
    /// that it can be small.
    private let isSample: Bool

    /// - Parameters:
    ///   - payloadBytes: the size of the payload; nil for the sample.
    ///   - isDistinct: whether each body begins with the push's number.
    /// - Throws: `UsageError` if the size is less than the notification without its body; `ValidationError` if it is
    ///   more than APNs takes.
    init(topic: String, payloadBytes: Int?, isDistinct: Bool = false) throws {
        guard let payloadBytes else {
            self.init(topic: topic, body: Self.sampleBody, isDistinct: isDistinct, isSample: true)
            _ = try notification().prepared()
            return
        }
        let empty = Workload(topic: topic, body: "", isDistinct: isDistinct, isSample: false)
        let least = try empty.notification().prepared().payload.count
        guard payloadBytes >= least else {
            throw UsageError("--payload-bytes must be \(least) or more: so much is the notification without its body")
        }
        guard payloadBytes <= 1_000_000 else { throw UsageError("--payload-bytes must be 1000000 or less") }
        // Letters need no escape in JSON, so each adds one byte.
        let padding = repeatElement("x", count: payloadBytes - least).joined()
        self.init(topic: topic, body: padding, isDistinct: isDistinct, isSample: false)
        _ = try notification().prepared()
    }

    private init(topic: String, body: String, isDistinct: Bool, isSample: Bool) {
        self.topic = topic
        self.body = body
        self.isDistinct = isDistinct
        self.isSample = isSample
    }

    /// Built anew from its values at each call, as a server does for each of its users.
    func notification(_ number: UInt64 = 0) -> PushNotification {
        let notification = PushNotification(
            topic: topic,
            alert: Alert(
                title: "Hey There",
                subtitle: isSample ? "Full moon sighting" : nil,
                body: isDistinct ? String(String(number % Self.numberBase + Self.numberBase).dropFirst()) + body : body
            )
        )
        .badge(1)
        .sound("cow.wav")
        return isSample ? notification.custom(Acme(acme2: ["bang", "whiz"])) : notification
    }
}

/// One push of a bulk call: which one it is, and when it was pulled.
struct Row: Sendable {
    var number: UInt64
    /// In microseconds of the monotonic clock.
    var pulled: UInt64
}

/// The rows of a run, made as they are pulled: their number costs no memory.
struct Rows: Sequence, IteratorProtocol {
    private var position: UInt64 = 0
    private let count: UInt64

    init(count: Int) {
        self.count = UInt64(count)
    }

    mutating func next() -> Row? {
        guard position < count else { return nil }
        defer { position += 1 }
        return Row(number: position, pulled: MonotonicTime.microseconds())
    }
}

/// Device tokens by number: 64 hexadecimal digits that look random and differ for different numbers.
enum DeviceTokens {
    static func token(_ number: UInt64) -> DeviceToken {
        do {
            return try DeviceToken(digits(number))
        } catch {
            preconditionFailure("64 hexadecimal digits are a device token: \(error)")
        }
    }

    static func digits(_ number: UInt64) -> String {
        String(unsafeUninitializedCapacity: 64) { buffer in
            let bytes = UnsafeMutableRawBufferPointer(buffer)
            var state = number &* 4
            for offset in stride(from: 0, to: 64, by: 16) {
                let word = splitMix(state)
                let high = hexadecimal(UInt32(truncatingIfNeeded: word &>> 32))
                let low = hexadecimal(UInt32(truncatingIfNeeded: word))
                bytes.storeBytes(of: high, toByteOffset: offset, as: UInt64.self)
                bytes.storeBytes(of: low, toByteOffset: offset + 8, as: UInt64.self)
                state &+= 1
            }
            return 64
        }
    }

    /// The finaliser of SplitMix64 (Steele, Lea, Flood 2014), a bijection: different numbers give different tokens.
    private static func splitMix(_ number: UInt64) -> UInt64 {
        var z = (number &+ 1) &* 0x9E37_79B9_7F4A_7C15
        z = (z ^ (z &>> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z &>> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z &>> 31)
    }

    /// Eight ASCII digits at once: each nibble is spread to a byte, and 10 to 15 are moved to the letters. A digit at a
    /// time would cost a tenth of what is to be measured.
    private static func hexadecimal(_ value: UInt32) -> UInt64 {
        var x = UInt64(value.byteSwapped)
        x = (x | x &<< 16) & 0x0000_FFFF_0000_FFFF
        x = (x | x &<< 8) & 0x00FF_00FF_00FF_00FF
        x = ((x &>> 4) | (x &<< 8)) & 0x0F0F_0F0F_0F0F_0F0F
        let letters = ((x &+ 0x0606_0606_0606_0606) &>> 4) & 0x0101_0101_0101_0101
        return (x &+ 0x3030_3030_3030_3030 &+ letters &* 0x27).littleEndian
    }
}

/// A mistake in the arguments.
struct UsageError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
