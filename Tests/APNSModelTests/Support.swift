import APNSModel

/// A generator whose sequence depends on its seed alone (SplitMix64).
struct Seeded: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }

    mutating func chance(_ oneIn: Int) -> Bool {
        Int.random(in: 0..<oneIn, using: &self) == 0
    }
}

struct Acme: Codable, Sendable, Equatable {
    var acme2: [String]
}

extension PushNotification {
    /// The payload as text.
    func text() throws(ValidationError) -> String {
        String(decoding: try prepared().payload, as: UTF8.self)
    }
}

/// The code of the validation error that a body throws; nil if it throws none.
func code(_ body: () throws -> Void) -> ValidationError.Code? {
    do {
        try body()
        return nil
    } catch {
        return (error as? ValidationError)?.code
    }
}
