/// The keys of the values that the relays of a fleet share.
enum FleetKey {
    /// The prefix of all of them.
    static let all = "fleet/"
    static let members = "fleet/member/"
    static let duties = "fleet/duty/"
    static let settings = "fleet/settings"

    static func member(_ id: String) -> String { self.members + id }
    static func duty(_ duty: FleetDuty) -> String { self.duties + duty.rawValue }
    static func token(keyID: String, teamID: String) -> String { "fleet/token/\(keyID)-\(teamID)" }
}

/// A task that one relay of a fleet has at a time.
enum FleetDuty: String, Sendable, Hashable, CaseIterable {
    /// Removes the values of relays that are gone.
    case leader
    /// Posts outcomes to the webhooks.
    case webhooks
}
