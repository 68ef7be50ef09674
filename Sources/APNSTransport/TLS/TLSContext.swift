import CAPNSOpenSSL

/// Owns one `SSL_CTX`: trust roots, our own certificate, protocol versions. One context serves many connections.
///
/// `@unchecked Sendable`: the pointer is set once in `init`, all settings are made there before the object is shared,
/// and OpenSSL allows `SSL_new` on a finished `SSL_CTX` from any thread (it locks and counts references).
package final class TLSContext: @unchecked Sendable {
    package enum Role: Sendable {
        case client
        case server
    }

    let pointer: OpaquePointer
    let role: Role
    /// `nil` for a server that requests no client certificate.
    let trustStore: TrustStore?

    /// Creates a context.
    ///
    /// - Throws: `WireError` with the code `trustStoreMissing`, `trustRootsUnreadable` or `certificateUnusable`, or
    ///   `handshakeFailed` if OpenSSL cannot create a context.
    package init(_ role: Role, configuration: TLSConfiguration) throws(WireError) {
        let verifies = role == .client || configuration.requiresClientCertificate
        self.trustStore = verifies ? try TrustStore.shared(for: configuration) : nil
        OpenSSLErrors.clear()
        guard let pointer = SSL_CTX_new(role == .client ? TLS_client_method() : TLS_server_method()) else {
            throw Self.failure("OpenSSL could not create a context")
        }
        self.pointer = pointer
        self.role = role
        if let trustStore { SSL_CTX_set1_cert_store(pointer, trustStore.pointer) }
        // If this failed unnoticed, OpenSSL's own limits would apply, which may allow older versions.
        guard capns_ctx_set_min_proto_version(pointer, configuration.minimumVersion.openSSL) == 1,
            capns_ctx_set_max_proto_version(pointer, configuration.maximumVersion.openSSL) == 1
        else { throw Self.failure("this OpenSSL does not support the TLS versions") }
        // RELEASE_BUFFERS: an idle connection does not keep 2 × 16 KiB of record buffers.
        capns_ctx_set_mode(pointer, Int(SSL_MODE_RELEASE_BUFFERS))
        capns_ctx_forbid_renegotiation_and_compression(pointer)
        capns_ctx_disable_session_cache(pointer)

        switch role {
        case .client:
            SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
            let protocols: [UInt8] = [2, UInt8(ascii: "h"), UInt8(ascii: "2")]
            // Unlike other functions, it returns 0 for success.
            guard SSL_CTX_set_alpn_protos(pointer, protocols, UInt32(protocols.count)) == 0 else {
                throw Self.failure("OpenSSL could not set the application protocol")
            }
        case .server:
            SSL_CTX_set_verify(pointer, SSL_VERIFY_NONE, nil)
            if configuration.requiresClientCertificate {
                SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
            }
            // No tickets: TLS 1.3 would send two after each handshake, and clients that keep their connections rarely need
            // one. The second call is for TLS 1.2, where resuming a session with a client certificate would fail.
            SSL_CTX_set_num_tickets(pointer, 0)
            capns_ctx_disable_tickets(pointer)
            if configuration.offersHTTP1Only {
                capns_ctx_select_alpn_http1(pointer)
            } else if !configuration.ignoresALPN {
                capns_ctx_select_alpn_h2(pointer)
            }
            if let alert = configuration.handshakeAlert { Self.refuse(pointer, with: alert) }
            if let refusal = configuration.certificateRefusal { Self.refuseCertificates(pointer, refusal) }
            // Only suites with forward secrecy and authenticated encryption. With TLS 1.2, HTTP/2 allows no others (RFC 9113,
            // section 9.2.2).
            guard SSL_CTX_set_cipher_list(pointer, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 else {
                throw Self.failure("this OpenSSL has no cipher suites for TLS 1.2")
            }
        }
        switch (configuration.certificateChainPEM, configuration.privateKeyPEM) {
        case (let chain?, let key?): try self.useCertificate(chainPEM: chain, keyPEM: key)
        case (nil, nil): break
        case (_?, nil): throw WireError(.certificateUnusable, "a certificate was given without its private key")
        case (nil, _?): throw WireError(.certificateUnusable, "a private key was given without its certificate")
        }
    }

    private static func failure(_ what: String) -> WireError {
        WireError(.handshakeFailed, "\(what): \(OpenSSLErrors.drain().text)")
    }

    deinit {
        SSL_CTX_free(self.pointer)
    }

    private static func refuse(_ pointer: OpaquePointer, with alert: UInt8) {
        // The alert is passed as the callback's argument, plus 1 because alert 0 would be a null pointer.
        SSL_CTX_set_client_hello_cb(
            pointer,
            { _, alert, argument in
                alert?.pointee = Int32(clamping: Int(bitPattern: argument) - 1)
                return SSL_CLIENT_HELLO_ERROR
            },
            UnsafeMutableRawPointer(bitPattern: Int(alert) + 1)
        )
    }

    /// Makes OpenSSL ask for a certificate, and refuse it with the alert that belongs to the result of the check. In TLS 1.3
    /// the client has then finished its handshake, as with APNs.
    private static func refuseCertificates(_ pointer: OpaquePointer, _ refusal: TLSConfiguration.CertificateRefusal) {
        SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        // The result is passed as the callback's argument. X509_V_OK is 0, the null pointer.
        SSL_CTX_set_cert_verify_callback(
            pointer,
            { check, argument in
                X509_STORE_CTX_set_error(check, Int32(clamping: Int(bitPattern: argument)))
                return argument == nil ? 1 : 0
            },
            UnsafeMutableRawPointer(bitPattern: Int(refusal.verifyResult))
        )
    }

    private func useCertificate(chainPEM: String, keyPEM: String) throws(WireError) {
        let chain = try PEM.certificates(in: chainPEM, code: .certificateUnusable)
        guard let key = PEM.privateKey(in: Array(keyPEM.utf8), passphrase: nil) else {
            throw WireError(
                .certificateUnusable,
                "the private key cannot be read (encrypted keys are not supported): \(OpenSSLErrors.drain().text)"
            )
        }
        OpenSSLErrors.clear()
        guard let leaf = chain.first, SSL_CTX_use_certificate(self.pointer, leaf.pointer) == 1 else {
            throw WireError(.certificateUnusable, "the certificate cannot be used: \(OpenSSLErrors.drain().text)")
        }
        guard SSL_CTX_use_PrivateKey(self.pointer, key.pointer) == 1 else {
            throw WireError(
                .certificateUnusable,
                "the certificate and its key do not match: \(OpenSSLErrors.drain().text)"
            )
        }
        for certificate in chain.dropFirst() {
            X509_up_ref(certificate.pointer)
            if capns_ctx_add_chain_certificate(self.pointer, certificate.pointer) != 1 {
                X509_free(certificate.pointer)
                throw WireError(
                    .certificateUnusable,
                    "the certificate's chain cannot be used: \(OpenSSLErrors.drain().text)"
                )
            }
        }
    }
}

extension TLSConfiguration.CertificateRefusal {
    /// The result of the check for which OpenSSL sends the alert of this name.
    fileprivate var verifyResult: Int32 {
        switch self {
        case .bad: X509_V_ERR_CERT_REJECTED
        case .revoked: X509_V_ERR_CERT_REVOKED
        case .expired: X509_V_ERR_CERT_HAS_EXPIRED
        case .unknownCA: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT
        case .missing: X509_V_OK
        }
    }
}

extension TLSConfiguration.Version {
    fileprivate var openSSL: Int32 {
        switch self {
        case .tls12: TLS1_2_VERSION
        case .tls13: TLS1_3_VERSION
        }
    }
}
