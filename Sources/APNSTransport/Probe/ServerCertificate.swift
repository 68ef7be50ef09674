import CAPNSOpenSSL

/// The contents of a certificate.
package struct ServerCertificate: Sendable, Hashable {
    /// Distinguished names as text (RFC 4514).
    package var subject: String
    package var issuer: String
    /// The end of the validity period in OpenSSL's format: `Jan  2 03:04:05 2030 GMT`.
    package var validUntil: String
    /// Seconds until then; negative if the certificate has expired.
    package var secondsLeft: Int64
}

extension ServerCertificate {
    init(_ certificate: OpaquePointer) {
        func text(_ name: OpaquePointer?) -> String {
            PeerText.printable(PEM.text { X509_NAME_print_ex($0, name, 0, capns_name_flags) >= 0 ? 1 : 0 })
        }
        self.subject = text(X509_get_subject_name(certificate))
        self.issuer = text(X509_get_issuer_name(certificate))
        let end = X509_get0_notAfter(certificate)
        self.validUntil = PEM.text { ASN1_TIME_print($0, end) }
        var days: Int32 = 0
        var seconds: Int32 = 0
        // `nil` as the first time means now.
        _ = ASN1_TIME_diff(&days, &seconds, nil, end)
        self.secondsLeft = Int64(days) * 86_400 + Int64(seconds)
    }
}

/// The result of a TLS handshake.
package struct HandshakeReport: Sendable {
    /// The TLS version, such as `TLSv1.3`.
    package var version: String
    package var cipher: String
    /// The certificates in the order in which the server sent them, its own first.
    package var chain: [ServerCertificate]
    /// The application protocol that the server chose (ALPN); `nil` if it chose none.
    package var applicationProtocol: String?
    /// Why the certificate is not trusted; `nil` if it is trusted.
    package var distrust: WireError?
}

extension TLSSession {
    /// Makes the handshake continue with an untrusted certificate, to learn as much as possible about the server. Do
    /// not send anything confidential on such a connection.
    func tolerateDistrust() {
        SSL_set_verify(self.ssl, SSL_VERIFY_NONE, nil)
    }

    /// The result of the handshake so far.
    var report: HandshakeReport {
        let certificates = SSL_get_peer_cert_chain(self.ssl)
        var chain: [ServerCertificate] = []
        for index in 0..<capns_x509_stack_count(certificates) {
            guard let certificate = capns_x509_stack_copy(certificates, index) else { continue }
            chain.append(ServerCertificate(certificate))
            X509_free(certificate)
        }
        return HandshakeReport(
            version: String(cString: SSL_get_version(self.ssl)),
            cipher: SSL_get_current_cipher(self.ssl).map { String(cString: SSL_CIPHER_get_name($0)) } ?? "",
            chain: chain,
            applicationProtocol: self.applicationProtocol,
            distrust: self.verificationError
        )
    }
}
