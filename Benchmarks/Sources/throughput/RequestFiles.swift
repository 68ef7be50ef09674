import APNSPool
import Crypto

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// What another load tool needs to send the same pushes: `payload`, `uris` (different device tokens) and
/// `authorization`, a field value with a real provider token.
struct RequestFiles {
    /// Enough that no header compression profits from their coming back; few enough that a tool that reads them all
    /// before it starts does not pay for it.
    static let uriCount = 4000

    var workload: Workload
    var endpoint: String
    var key: String?
    var keyID: String?
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
        let signer: P256.Signing.PrivateKey
        if let key {
            signer = try P256.Signing.PrivateKey(pemRepresentation: String(contentsOfFile: key, encoding: .utf8))
        } else {
            signer = P256.Signing.PrivateKey()
        }
        let now = Int(Date().timeIntervalSince1970)
        let header = #"{"alg":"ES256","kid":"\#(keyID ?? "ABC123DEFG")"}"#
        let claims = #"{"iss":"\#(teamID)","iat":\#(now)}"#
        let signed = base64URL(Data(header.utf8)) + "." + base64URL(Data(claims.utf8))
        let signature = try signer.signature(for: Data(signed.utf8)).rawRepresentation
        return "bearer " + signed + "." + base64URL(signature)
    }

    private func base64URL(_ data: Data) -> String {
        String(
            data.base64EncodedString().compactMap { character -> Character? in
                switch character {
                case "+": "-"
                case "/": "_"
                case "=": nil
                default: character
                }
            }
        )
    }
}
