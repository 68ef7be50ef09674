import APNSSealing
import Foundation

/// What the app and its extension share: the keys, and which messages came.
struct Vault: Codable {
    struct StoredKey: Codable {
        var id: SealingKeyID
        var secret: Data
        var acceptedUntil: Date?
    }

    var keys: [StoredKey] = []
    var window = ReplayWindow()

    func keyring() throws -> SealingKeyring {
        SealingKeyring(
            entries: try keys.map { stored in
                SealingKeyring.Entry(
                    key: try SealingKey(id: stored.id, rawRepresentation: Array(stored.secret)),
                    acceptedUntil: stored.acceptedUntil
                )
            }
        )
    }

    mutating func keep(_ keyring: SealingKeyring) {
        keys = keyring.entries.map { entry in
            StoredKey(
                id: entry.key.id,
                secret: Data(entry.key.rawRepresentation),
                acceptedUntil: entry.acceptedUntil
            )
        }
    }

    static func load() throws -> Vault {
        try JSONDecoder().decode(Vault.self, from: SharedKeychain.data())
    }

    func save() throws {
        try SharedKeychain.replace(with: JSONEncoder().encode(self))
    }
}
