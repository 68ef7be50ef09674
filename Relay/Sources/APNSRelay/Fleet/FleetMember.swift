import PushQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// A relay of the fleet.
struct FleetMember: Sendable, Hashable {
    /// Random, different for each process.
    var id: String
    /// The name of its machine.
    var host: String
    /// The id of its process on that machine.
    var process: Int
    /// The relay's version.
    var version: String
    /// When the process started, by its own clock.
    var since: QueueTime
    /// Whether it is the one that posts to the webhooks.
    var postsWebhooks = false

    /// This process.
    ///
    /// - Parameters:
    ///   - version: the relay's version.
    ///   - now: the time of day.
    static func current(version: String, now: QueueTime) -> FleetMember {
        let id = String(UInt64.random(in: .min ... .max), radix: 16)
        return FleetMember(
            id: String(repeating: "0", count: 16 - id.count) + id,
            host: ProcessInfo.processInfo.hostName,
            process: Int(ProcessInfo.processInfo.processIdentifier),
            version: version,
            since: now
        )
    }
}

extension FleetMember {
    /// The stored form. Later versions may add members.
    private struct Value: Codable {
        var beat: UInt64
        var host: String
        var process: Int
        var version: String
        /// In milliseconds since 1970.
        var since: Int64
    }

    /// The stored form of a heartbeat.
    func encoded(beat: UInt64) -> [UInt8] {
        let value = Value(
            beat: beat,
            host: self.host,
            process: self.process,
            version: self.version,
            since: self.since.millisecondsSince1970
        )
        return StoredJSON.encode(value)
    }

    /// A member from its heartbeat. One that cannot be read is a member all the same.
    init(id: String, value: [UInt8]) {
        let value = StoredJSON.decode(Value.self, from: value)
        self.init(
            id: id,
            host: value?.host ?? "",
            process: value?.process ?? 0,
            version: value?.version ?? "",
            since: QueueTime(millisecondsSince1970: value?.since ?? 0)
        )
    }
}
