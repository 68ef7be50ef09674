/// What the simulator does wrong, and to which pushes.
///
/// As JSON: `{"match":{"skip":100,"times":20},"effect":{"answer":{"status":503,"reason":"ServiceUnavailable"}}}`.
public struct Fault: Sendable, Hashable, Codable {
    /// Which pushes it happens to. A push takes the first fault that matches it.
    public struct Match: Sendable, Hashable, Codable {
        /// Only pushes to this device token (hexadecimal, lower case).
        public var deviceToken: String?
        /// How many of the pushes that match pass first.
        public var skip: Int
        /// How many it happens to then; nil: all.
        public var times: Int?
        /// The share of them that it really happens to, 0 to 1, by the simulator's seed.
        public var probability: Double

        public init(deviceToken: String? = nil, skip: Int = 0, times: Int? = 1, probability: Double = 1) {
            self.deviceToken = deviceToken
            self.skip = skip
            self.times = times
            self.probability = probability
        }

        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.deviceToken = try container.decodeIfPresent(String.self, forKey: .deviceToken)
            self.skip = try container.decodeIfPresent(Int.self, forKey: .skip) ?? 0
            self.times = container.contains(.times) ? try container.decodeIfPresent(Int.self, forKey: .times) : 1
            self.probability = try container.decodeIfPresent(Double.self, forKey: .probability) ?? 1
        }

        /// All pushes.
        public static let always = Match(times: nil)
    }

    public enum Effect: Sendable, Hashable, Codable {
        /// This status and reason instead of the right ones. The push is not processed.
        case answer(status: Int, reason: String?)
        /// A body that is not what APNs would send.
        case answerBody(status: Int, body: String)
        /// The right answer, so many milliseconds later.
        case delay(milliseconds: Int)
        /// Processed, and never answered.
        case stall
        /// RST_STREAM with this code, not processed: 7 is REFUSED_STREAM, 8 is CANCEL.
        case reset(code: UInt32)
        /// GOAWAY. The push is the last that is processed, or, with `refusesPush`, the first that is not. Nothing above
        /// it is processed or answered.
        case goAway(reason: String?, refusesPush: Bool)
        /// The connection is closed without a word. With `processed`, the push was processed before.
        case drop(processed: Bool)
        /// From this push on the connection reads and says nothing.
        case silence
        /// The right answer, and a new SETTINGS_MAX_CONCURRENT_STREAMS.
        case maxConcurrentStreams(UInt32)
    }

    public var match: Match
    public var effect: Effect

    public init(_ effect: Effect, match: Match = Match()) {
        self.match = match
        self.effect = effect
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.match = try container.decodeIfPresent(Match.self, forKey: .match) ?? Match()
        self.effect = try container.decode(Effect.self, forKey: .effect)
    }

    /// So many pushes in a row are answered 503.
    public static func burst(of times: Int, status: Int = 503, after skip: Int = 0) -> Fault {
        let reason = status == 503 ? "ServiceUnavailable" : status == 500 ? "InternalServerError" : nil
        return Fault(.answer(status: status, reason: reason), match: Match(skip: skip, times: times))
    }
}

/// Faults in the order in which they are asked, with what is left of each. Deterministic by its seed.
struct FaultScript {
    private struct Armed {
        var fault: Fault
        var skip: Int
        var left: Int?
    }

    private var armed: [Armed] = []
    private var random: SplitMix64

    var isEmpty: Bool { self.armed.isEmpty }

    init(seed: UInt64) {
        self.random = SplitMix64(seed: seed)
    }

    mutating func add(_ fault: Fault) {
        self.armed.append(Armed(fault: fault, skip: max(fault.match.skip, 0), left: fault.match.times))
    }

    mutating func removeAll() { self.armed = [] }

    mutating func effect(deviceToken: Substring?) -> Fault.Effect? {
        for index in self.armed.indices {
            if let wanted = self.armed[index].fault.match.deviceToken, wanted != deviceToken ?? "" { continue }
            if self.armed[index].skip > 0 {
                self.armed[index].skip -= 1
                continue
            }
            if let left = self.armed[index].left {
                if left <= 0 { continue }
                self.armed[index].left = left - 1
            }
            let probability = self.armed[index].fault.match.probability
            if probability < 1, Double.random(in: 0..<1, using: &self.random) >= probability { continue }
            let effect = self.armed[index].fault.effect
            self.armed.removeAll { $0.left.map { $0 <= 0 } ?? false }
            return effect
        }
        return nil
    }
}

/// A small generator (Steele, Lea, Flood) that is repeatable by its seed and asks the system for nothing.
struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { self.state = seed }

    mutating func next() -> UInt64 {
        self.state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
