import HTTP2Wire
import Synchronization

/// The TLS contexts of one set of trust roots. Everyone who shows no certificate shares one context; the others share the
/// roots.
final class TLSContexts: Sendable {
    private let trust: APNSClientConfiguration.Trust
    private let plain = Mutex<TLSContext?>(nil)

    init(trust: APNSClientConfiguration.Trust) {
        self.trust = trust
    }

    /// - Throws: `trustRootsUnusable`; `certificate…` codes are for what OpenSSL takes exception to only here.
    func context(for certificate: TLSIdentity?) throws(APNSConfigurationError) -> TLSContext {
        guard certificate == nil else { return try self.make(certificate) }
        if let context = self.plain.withLock({ $0 }) { return context }
        let context = try self.make(nil)
        return self.plain.withLock { shared in
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
