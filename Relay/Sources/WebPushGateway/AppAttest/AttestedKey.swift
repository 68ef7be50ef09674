/// A key that App Attest has attested, as a server stores it.
///
/// After each assertion, store what ``use(counter:challenge:now:)`` has changed by a compare-and-set, so that of two
/// requests with one assertion only one succeeds.
public struct AttestedKey: Sendable, Hashable, Codable {
    /// The length of a key's id in bytes.
    public static let idCount = 32
    /// The number of requests that a key can make while none of its challenges has expired.
    public static let maxUsedChallenges = 30

    /// The uncompressed point of P-256, 65 bytes. Its SHA-256 is the key's id.
    public let publicKey: [UInt8]
    /// The counter of the last assertion.
    public private(set) var counter: UInt32
    /// The used challenges that have not expired.
    public private(set) var usedChallenges: [AppAttestChallenges.Challenge]

    init(publicKey: [UInt8]) {
        self.publicKey = publicKey
        self.counter = 0
        self.usedChallenges = []
    }

    /// Records a verified assertion.
    ///
    /// - Parameters:
    ///   - counter: the assertion's counter.
    ///   - challenge: its challenge.
    ///   - now: in seconds since 1970.
    /// - Throws: `AppAttestError`: `repeatedAssertion`, `repeatedChallenge` or `tooManyRequests`.
    public mutating func use(
        counter: UInt32,
        challenge: AppAttestChallenges.Challenge,
        now: Int64
    ) throws(AppAttestError) {
        guard counter > self.counter else {
            throw AppAttestError(
                .repeatedAssertion,
                "The key's counter has not risen. Make a new assertion for each request, and send them one after the other."
            )
        }
        var used = self.usedChallenges.filter { $0.expiry > now }
        guard !used.contains(challenge) else {
            throw AppAttestError(.repeatedChallenge, "The challenge was used. Ask for another one for each request.")
        }
        guard used.count < Self.maxUsedChallenges else {
            throw AppAttestError(.tooManyRequests, "Too many requests of one key. Try again in some minutes.")
        }
        used.append(challenge)
        self.usedChallenges = used
        self.counter = counter
    }
}
