import APNSTransport
import Synchronization

/// The TLS contexts for one set of trust roots. All connections without a client certificate share one context. Each
/// client certificate has a context of its own, with the same trust roots.
final class TLSContexts: Sendable {
    private let trust: APNSClientConfiguration.Trust
    private let withoutCertificate = Mutex<TLSContext?>(nil)

    init(trust: APNSClientConfiguration.Trust) {
        self.trust = trust
    }

    /// - Throws: `trustRootsUnusable`; `notACertificate` if OpenSSL rejects the certificate only at this point.
    func context(for certificate: TLSIdentity?) throws(APNSConfigurationError) -> TLSContext {
        guard certificate == nil else { return try self.make(certificate) }
        if let context = self.withoutCertificate.withLock({ $0 }) { return context }
        let context = try self.make(nil)
        return self.withoutCertificate.withLock { shared in
            if shared == nil { shared = context }
            return shared ?? context
        }
    }

    private func make(_ certificate: TLSIdentity?) throws(APNSConfigurationError) -> TLSContext {
        var tls = TLSConfiguration()
        tls.caFile = self.trust.caFile
        tls.caPEM = self.trust.caPEM
        tls.certificateChainPEM = certificate?.certificateChainPEM
        tls.privateKeyPEM = certificate?.privateKeyPEM
        do {
            return try TLSContext(.client, configuration: tls)
        } catch {
            if error.code == .certificateUnusable {
                throw APNSConfigurationError(.notACertificate, setting: "authentication", message: error.message)
            }
            throw APNSConfigurationError(
                .trustRootsUnusable,
                setting: self.trust.caPEM == nil ? "trust.caFile" : "trust.caPEM",
                message: error.message
            )
        }
    }
}
