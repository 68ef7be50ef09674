import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The settings that operators change while the relays run. They apply to all relays of the fleet.
struct FleetSettings: Sendable, Hashable {
    /// The most connections of all relays per client; nil for the relay's own setting.
    var maxConnections: Int?
    /// The most pushes in flight of each relay; nil for the relay's own setting.
    var maxInFlight: Int?
    /// The apps whose pushes stay queued.
    var pausedApps: Set<String> = []

    /// The permitted values of both numbers.
    static let range = 1...100_000

    /// Why settings cannot be used.
    struct Fault: Error, Sendable, Hashable {
        /// The wrong member; nil if there is no object.
        var member: String?
        var message: String
    }
}

extension FleetSettings {
    private enum Value: Decodable {
        case integer(Int)
        case texts([String])
        case other

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let integer = try? container.decode(Int.self) {
                self = .integer(integer)
            } else if let texts = try? container.decode([String].self) {
                self = .texts(texts)
            } else {
                self = .other
            }
        }
    }

    /// Reads a JSON object.
    init(json bytes: [UInt8]) throws(Fault) {
        guard let members = StoredJSON.decode([String: Value].self, from: bytes) else {
            throw Fault(member: nil, message: "expected a JSON object with the settings")
        }
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            switch name {
            case "maxConnections": self.maxConnections = try Self.integer(name, value)
            case "maxInFlight": self.maxInFlight = try Self.integer(name, value)
            case "pausedApps":
                guard case .texts(let apps) = value else {
                    throw Fault(member: name, message: "expected an array with the names of apps")
                }
                self.pausedApps = Set(apps)
            default:
                throw Fault(
                    member: name,
                    message: "unknown member; expected only maxConnections, maxInFlight, pausedApps"
                )
            }
        }
    }

    private static func integer(_ name: String, _ value: Value) throws(Fault) -> Int {
        guard case .integer(let integer) = value, self.range.contains(integer) else {
            throw Fault(
                member: name,
                message: "expected a whole number from \(self.range.lowerBound) to \(self.range.upperBound)"
            )
        }
        return integer
    }

    /// The JSON object. Equal settings have equal bytes.
    var json: [UInt8] {
        struct Members: Encodable {
            var maxConnections: Int?
            var maxInFlight: Int?
            var pausedApps: [String]
        }
        return StoredJSON.encode(
            Members(
                maxConnections: self.maxConnections,
                maxInFlight: self.maxInFlight,
                pausedApps: self.pausedApps.sorted()
            )
        )
    }
}
