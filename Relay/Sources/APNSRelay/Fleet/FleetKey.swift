/// The keys of the values that the relays of a fleet share.
enum FleetKey {
    /// The prefix of all of them.
    static let all = "fleet/"
    static let members = "fleet/member/"
    static let settings = "fleet/settings"

    static func member(_ id: String) -> String { self.members + id }
    static func token(keyID: String, teamID: String) -> String { "fleet/token/\(keyID)-\(teamID)" }
}
