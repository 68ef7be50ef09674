import APNSSimulator
import APNSTransport

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The files of an earlier run in the folder of `--write-credentials`. A simulator that uses them again serves that
/// run's clients: they trust its certificate authority and sign with its key.
struct SavedCredentials: Sendable {
    static let authorityFile = "ca.pem"
    static let authorityKeyFile = "simulator-ca-key.pem"
    static let environmentFile = "apns.env"
    /// The provider token that all processes with the environment share.
    static let tokenFile = "provider-token"

    var authority: TLSIdentity
    /// The signing key; nil if provider tokens are not required.
    var key: SimulatedKey?

    /// The variables in `environmentFile`.
    private static let variables = [
        "APNS_ENDPOINT", "APNS_CA_FILE", "APNS_TOKEN_FILE", "APNS_KEY_FILE", "APNS_KEY_ID", "APNS_TEAM_ID",
        "APNS_TOPIC",
    ]

    /// Whether a file that begins with these bytes was written by `Credentials`: nothing but its variables, and first the
    /// simulator's endpoint and its certificate authority.
    static func isEnvironment(_ bytes: [UInt8]) -> Bool {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        return lines.count >= 2 && lines[0].hasPrefix("APNS_ENDPOINT=https://") && lines[1].hasPrefix("APNS_CA_FILE=")
            && lines[1].contains("/" + self.authorityFile)
            && lines.allSatisfy { line in self.variables.contains { line.hasPrefix($0 + "=") } }
    }

    /// The files with fixed names in a folder of credentials.
    static func files(in folder: URL) -> [String] {
        [self.authorityFile, self.authorityKeyFile, self.environmentFile, self.tokenFile].map {
            folder.appending(path: $0).path(percentEncoded: false)
        }
    }

    static func keyFile(_ keyID: String) -> String { "AuthKey_\(keyID).p8" }

    /// Nil unless all files are in the folder and readable, the authority's key belongs to its certificate, and the
    /// certificate is valid for another day.
    ///
    /// - Parameter now: Seconds since 1970.
    init?(folder: URL, needsToken: Bool, now: Int64) {
        func text(_ name: String) -> String? {
            let path = folder.appending(path: name).path(percentEncoded: false)
            let bytes = try? Files.contents(of: path, option: "--write-credentials", limit: 64 * 1024)
            return bytes.map { String(decoding: $0, as: UTF8.self) }
        }
        guard let certificate = text(Self.authorityFile), let authorityKey = text(Self.authorityKeyFile),
            let authority = try? TLSIdentity.read(
                certificate: Array(certificate.utf8),
                key: Array(authorityKey.utf8),
                passphrase: nil
            ),
            authority.notBefore <= now, authority.notAfter - 86_400 > now
        else { return nil }
        self.authority = authority
        guard needsToken else { return }
        let lines = (text(Self.environmentFile) ?? "").split(separator: "\n")
        func variable(_ name: String) -> String? {
            lines.last { $0.hasPrefix(name + "=") }.map { String($0.dropFirst(name.count + 1)) }
        }
        guard let keyID = variable("APNS_KEY_ID"), let teamID = variable("APNS_TEAM_ID"),
            let p8 = text(Self.keyFile(keyID)), let key = SimulatedKey(p8: p8, keyID: keyID, teamID: teamID)
        else { return nil }
        self.key = key
    }
}
