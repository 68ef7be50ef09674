internal import APNSTransport
internal import Synchronization

/// The simulator's TLS certificates and contexts, valid and faulty ones. Each is created at its first use.
final class ServerIdentities: Sendable {
    private struct State {
        var authority: CertificateAuthority
        var contexts: [TLSFault: TLSContext] = [:]
        var identities: [TLSFault.Certificate: CertificateAuthority.Identity] = [:]
    }

    let certificateAuthorityPEM: String
    let certificateAuthorityKeyPEM: String
    private let names: [String]
    private let asksForCertificate: Bool
    private let state: Mutex<State>
    private static let day = 86_400

    /// - Parameter saved: The certificate authority; nil creates a new one.
    init(
        names: [String],
        asksForCertificate: Bool = false,
        authority saved: TLSIdentity? = nil
    ) throws(WireError) {
        let authority: CertificateAuthority
        if let saved {
            authority = try CertificateAuthority(saved)
        } else {
            // Each authority gets a unique name: if two had one name, TLS might look up the key of the wrong one.
            let number = UInt32.random(in: .min ... .max)
            authority = try CertificateAuthority(commonName: "Simulated APNs Root \(number)")
        }
        self.asksForCertificate = asksForCertificate
        self.certificateAuthorityPEM = authority.certificatePEM
        self.certificateAuthorityKeyPEM = authority.privateKeyPEM
        self.names = names
        self.state = Mutex(State(authority: authority))
    }

    func context(_ fault: TLSFault) throws -> TLSContext {
        try self.state.withLock { state in
            if let context = state.contexts[fault] { return context }
            let context = try self.makeContext(fault, &state)
            state.contexts[fault] = context
            return context
        }
    }

    /// A client certificate from the simulator's own authority.
    func issueClient(topics: [String], validFrom: Int, validTo: Int) throws(WireError) -> TLSIdentity {
        let identity: CertificateAuthority.Identity
        do {
            identity = try self.state.withLock {
                try $0.authority.issueClient(topics: topics, validFrom: validFrom, validTo: validTo)
            }
            return try TLSIdentity.read(
                certificate: Array(identity.certificateChainPEM.utf8),
                key: Array(identity.privateKeyPEM.utf8),
                passphrase: nil
            )
        } catch {
            throw error as? WireError
                ?? WireError(.certificateUnusable, "no client certificate could be made: \(error)")
        }
    }

    private func makeContext(_ fault: TLSFault, _ state: inout State) throws(WireError) -> TLSContext {
        let identity = try self.identity(fault.certificate, &state)
        var tls = TLSConfiguration()
        tls.certificateChainPEM = identity.certificateChainPEM
        tls.privateKeyPEM = identity.privateKeyPEM
        tls.offersHTTP1Only = fault.alpn == .http11
        tls.ignoresALPN = fault.alpn == .none
        if fault.versions == .tls12 { tls.maximumVersion = .tls12 }
        if fault.versions == .tls13 { tls.minimumVersion = .tls13 }
        tls.handshakeAlert = fault.handshakeAlert
        tls.certificateRefusal = fault.clientCertificate?.inTLS
        if self.asksForCertificate {
            tls.requiresClientCertificate = true
            tls.trustsSystemRoots = false
            tls.caPEM = self.certificateAuthorityPEM
        }
        return try TLSContext(.server, configuration: tls)
    }

    private func identity(
        _ kind: TLSFault.Certificate,
        _ state: inout State
    ) throws(WireError) -> CertificateAuthority.Identity {
        if let identity = state.identities[kind] { return identity }
        let identity: CertificateAuthority.Identity
        switch kind {
        case .valid: identity = try state.authority.issue(names: self.names)
        case .otherHost: identity = try state.authority.issue(names: ["other-host.invalid"])
        case .expired:
            let yesterday = -Self.day
            identity = try state.authority.issue(names: self.names, validFrom: yesterday * 30, validTo: yesterday)
        case .notYetValid:
            identity = try state.authority.issue(names: self.names, validFrom: Self.day, validTo: Self.day * 30)
        case .untrusted:
            // This is the authority's only certificate, so the authority is not kept.
            identity = try CertificateAuthority(commonName: "Simulated Stranger").issue(names: self.names)
        }
        state.identities[kind] = identity
        return identity
    }
}

extension TLSFault.CertificateRefusal {
    fileprivate var inTLS: TLSConfiguration.CertificateRefusal {
        switch self {
        case .bad: .bad
        case .revoked: .revoked
        case .expired: .expired
        case .unknownCA: .unknownCA
        case .missing: .missing
        }
    }
}
