import APNSTransport
import Logging
import SupervisedPool

/// Watching the files of a credential and the calendar.
extension ClientRuntime {
    /// Reads the files of the current credential again.
    ///
    /// - Returns: True if the key or certificate in the files came into use. False if it is the same as before and was
    ///   not revoked.
    func reloadCredential(within time: Duration?) async throws(APNSAuthenticationError) -> Bool {
        let current = self.credentials.latest.resolved
        let resolved = try await self.resolve(current.authentication)
        if resolved.isSame(as: current), !self.credentials.isRevoked { return false }
        try await self.replaceCredential(with: resolved, within: time)
        return true
    }

    /// Watches the files of a credential and the expiry of its certificate until the session is retired.
    ///
    /// An unusable file is read at each check until it is usable: it may be half written, or the certificate may have
    /// arrived before its key. A file without a verdict is tried again at the next check, and so is a refused one, once: a
    /// single APNs server can be confused. After that, it is not tried again until it changes.
    func watch(_ session: CredentialSession) async {
        let authentication = session.resolved.authentication
        let files = authentication.fileCheckInterval == nil ? [] : authentication.files
        if files.isEmpty, session.resolved.certificate == nil { return }
        // Without files, only the certificate's expiry is checked: once an hour.
        let interval = (files.isEmpty ? nil : authentication.fileCheckInterval) ?? .seconds(3600)
        var expiry = CertificateExpiryWatch()
        // Digests of the files that need no further try, of refused ones, and of those of the last warning.
        var settled: [String?] = []
        var refused: [String?] = []
        var logged: [String?] = []
        while !session.isRetired, !Task.isCancelled {
            self.warn(of: &expiry, session.resolved)
            if await session.ended.wait(until: self.clock.now.advanced(by: interval), clock: self.clock) { break }
            guard !files.isEmpty, session.adopted.isOpen, !session.isRetired, self.credentials.candidate == nil,
                let contents = await FileThreads.runUnlessCancelled({ files.map(Self.digest) }), contents != settled
            else { continue }
            do throws(APNSAuthenticationError) {
                let resolved = try await self.resolve(authentication)
                if !resolved.isSame(as: session.resolved) {
                    // A candidate of the user's own is not interrupted.
                    try await self.replaceCredential(with: resolved, within: Self.verdictTime, supersedes: false)
                }
                settled = contents
            } catch {
                let metadata: Logger.Metadata = ["error": "\(error)"]
                switch error.code {
                case .refused:
                    if contents == refused { settled = contents }
                    refused = contents
                    self.logger.error("the key or certificate in the changed file is not used", metadata: metadata)
                case .configuration, .noVerdict:
                    guard contents != logged else { break }
                    logged = contents
                    self.logger.warning(
                        "a changed key or certificate file cannot be used (yet); the old credential stays in use",
                        metadata: metadata
                    )
                // Another change of the authentication, or the client's end.
                default: break
                }
            }
        }
    }

    private static func digest(of file: String) -> String? {
        let contents = SystemFile.contents(ofRegular: file, limit: CredentialInput.limit)
        return (try? contents.get()).flatMap { try? SHA256Digest.hexadecimal(of: $0) }
    }

    private func warn(of expiry: inout CertificateExpiryWatch, _ resolved: ResolvedAuthentication) {
        guard let certificate = resolved.certificate,
            let days = expiry.check(notAfter: certificate.notAfter, wallNow: self.configuration.wallClock())
        else { return }
        if days < 0 {
            self.logger.error("the client certificate has expired", metadata: ["credential": "\(resolved.name)"])
        } else {
            self.logger.warning(
                "the client certificate expires in \(days) days: make a new one in the developer portal",
                metadata: ["credential": "\(resolved.name)"]
            )
        }
    }
}

/// Decides when to warn about a certificate's expiry: once for each day, from 30 days before. Pure.
struct CertificateExpiryWatch: Sendable {
    private static let day: Int64 = 86_400
    private var lastWarning: Int64?

    /// - Parameters:
    ///   - notAfter: The certificate's expiry, in seconds since 1970.
    ///   - wallNow: The current time, in seconds since 1970.
    /// - Returns: The days that are left, to log a warning now. Negative after the expiry.
    mutating func check(notAfter: Int64, wallNow: Int64) -> Int64? {
        let left = notAfter.saturatingDifference(to: wallNow)
        let days = left > 0 ? left / Self.day : left / Self.day - 1
        guard left <= 30 * Self.day, days != self.lastWarning else { return nil }
        self.lastWarning = days
        return days
    }
}
