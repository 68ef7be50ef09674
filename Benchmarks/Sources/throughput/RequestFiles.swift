import APNSPool
import APNSSimulator

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What another load tool needs to send the same pushes: `payload`, `uris` (different device tokens) and
/// `authorization`, a field value with a provider token of a throw-away key.
struct RequestFiles {
    /// Enough that no header compression profits from their coming back; few enough that a tool that reads them all
    /// before it starts does not pay for it.
    static let uriCount = 4000

    var workload: Workload
    var endpoint: String
    var teamID: String

    func write(to directory: String) throws {
        let payload = try workload.notification().prepared().payload
        var uris = ""
        for number in 0..<Self.uriCount { uris += "\(endpoint)/3/device/\(DeviceTokens.digits(UInt64(number)))\n" }
        try Data(payload).write(to: URL(filePath: "\(directory)/payload"))
        try Data(uris.utf8).write(to: URL(filePath: "\(directory)/uris"))
        try Data(try authorization().utf8).write(to: URL(filePath: "\(directory)/authorization"))
    }

    /// `bearer` and a JSON Web Token of Apple's form: ES256, key id, team id, the time.
    private func authorization() throws -> String {
        let key = SimulatedKey(keyID: "ABC123DEFG", teamID: teamID)
        return "bearer " + (try key.providerToken(issuedAt: Int64(Date().timeIntervalSince1970)))
    }
}
