import APNSModel
import TestSupport

extension SeededRandom {
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
