/// The credential in use, and the candidate to replace it. Pure.
///
/// ```
///   1                     ── begin(2) ──▶ 1, candidate 2
///   1, candidate 2        ── adopt(2) ──▶ 2
///   1, candidate 2        ── giveUp(2): refused, or not needed ──▶ 1
///   any                   ── revoke ────▶ nothing is sent until install
/// ```
/// All pushes use the current credential until the candidate is adopted.
struct CredentialRotation<Credential: Equatable & Sendable>: Sendable, Equatable {
    /// The current credential; after a revocation, the last one.
    private(set) var latest: Credential
    private(set) var isRevoked = false
    private(set) var candidate: Credential?

    init(_ current: Credential) {
        self.latest = current
    }

    /// Nil after a revocation.
    var current: Credential? { self.isRevoked ? nil : self.latest }

    /// Records a candidate.
    ///
    /// - Returns: The candidate that it replaces, if any.
    mutating func begin(_ candidate: Credential) -> Credential? {
        defer { self.candidate = candidate }
        return self.candidate
    }

    /// Makes the candidate the current credential.
    ///
    /// - Returns: Whether it was the candidate, and the credential that it replaced.
    mutating func adopt(_ candidate: Credential) -> (isAdopted: Bool, retired: Credential?) {
        guard self.candidate == candidate else { return (false, nil) }
        return (true, self.install(candidate).first { $0 != candidate })
    }

    /// Drops a candidate. False: it was not the candidate.
    mutating func giveUp(_ candidate: Credential) -> Bool {
        guard self.candidate == candidate else { return false }
        self.candidate = nil
        return true
    }

    /// Makes a credential the current one.
    ///
    /// - Returns: The credentials that are no longer used.
    mutating func install(_ credential: Credential) -> [Credential] {
        defer { self.latest = credential }
        let retired = [self.current, self.candidate].compactMap(\.self)
        self.isRevoked = false
        self.candidate = nil
        return retired
    }

    /// Removes the current credential and the candidate. Nothing is sent until another one is installed.
    mutating func revoke() {
        self.isRevoked = true
        self.candidate = nil
    }
}
