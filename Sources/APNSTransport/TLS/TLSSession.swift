import CAPNSOpenSSL
import NIOCore

/// What a peer sent around one piece of application data: the overhead of TLS records (RFC 8446, section 5).
package struct TLSOverhead: Sendable, Equatable {
    /// The header, tag and padding of the data's record, and records without data before it.
    var bytes = 0
    /// The number of records without data before it: session tickets, key updates, and records that contain nothing.
    var emptyRecords = 0

    package init() {}

    init(bytes: Int, emptyRecords: Int) {
        self.bytes = bytes
        self.emptyRecords = emptyRecords
    }
}

/// Owns one `SSL`: a TLS session that consumes and produces bytes, without a socket.
///
/// Feed it the bytes from the network, call `handshake`, `read` or `write`, then send its output to the network.
/// Confined to the event loop of its connection.
final class TLSSession {
    enum HandshakeStep {
        case incomplete
        case complete
        case failed(WireError)
    }

    enum ReadStep {
        case bytes(Int)
        case needsMore
        case closeNotify
        case failed(WireError)
    }

    let ssl: OpaquePointer
    let buffers = TLSBuffers()
    private let context: TLSContext
    private let peerName: String
    /// Whether a call has failed. OpenSSL then allows no further input, output or `SSL_shutdown` (SSL_get_error(3)).
    private var isBroken = false
    /// The first reason that OpenSSL gave when the session failed; 0 if there is none.
    private(set) var failureReason: Int32 = 0
    /// The number of bytes received since the last application data.
    private var bytesWithoutData = 0
    /// The overhead of the application data that `read` returned last.
    private(set) var overhead = TLSOverhead()

    /// The maximum number of bytes without application data: a handshake, or records that TLS handles itself, such as
    /// key updates and renegotiation requests. A peer that sends nothing else would keep us busy for nothing. OpenSSL
    /// accepts certificates of up to 100 KiB.
    static let limitWithoutData = 128 * 1024

    /// - Parameter peerName: For a client, the host name or IP address that the server's certificate must be valid for.
    init(context: TLSContext, peerName: String) throws(WireError) {
        OpenSSLErrors.clear()
        guard let ssl = SSL_new(context.pointer) else {
            throw WireError(.handshakeFailed, "OpenSSL could not create a session: \(OpenSSLErrors.drain().text)")
        }
        guard let bio = self.buffers.makeBIO() else {
            SSL_free(ssl)
            throw WireError(.handshakeFailed, "OpenSSL is out of memory")
        }
        SSL_set_bio(ssl, bio, bio)  // the SSL owns it from here
        self.ssl = ssl
        self.context = context
        self.peerName = peerName

        switch context.role {
        case .client:
            let peerName = try Self.verifiableName(peerName)
            SSL_set_connect_state(ssl)
            let parameters = SSL_get0_param(ssl)
            if (try? SocketAddress(ipAddress: peerName, port: 0)) != nil {
                // A literal address is not sent as the server name (RFC 6066, section 3).
                guard X509_VERIFY_PARAM_set1_ip_asc(parameters, peerName) == 1 else {
                    throw WireError(.handshakeFailed, "'\(peerName)' is not an address that a certificate can contain")
                }
            } else {
                // Only the subject's alternative names are checked (RFC 9525, section 6.3).
                X509_VERIFY_PARAM_set_hostflags(
                    parameters,
                    UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)
                )
                guard X509_VERIFY_PARAM_set1_host(parameters, peerName, peerName.utf8.count) == 1,
                    capns_set_tlsext_host_name(ssl, peerName) == 1
                else {
                    throw WireError(.handshakeFailed, "'\(peerName)' is not a name that a certificate can contain")
                }
            }
        case .server:
            SSL_set_accept_state(ssl)
        }
    }

    deinit {
        SSL_free(self.ssl)
    }

    /// The name as used in certificates and in the server name extension, without the trailing dot of an absolute name
    /// (RFC 6066, section 3). Names with a leading dot are rejected, because OpenSSL would accept any name below it.
    private static func verifiableName(_ name: String) throws(WireError) -> String {
        let stripped = name.hasSuffix(".") ? String(name.dropLast()) : name
        guard !stripped.isEmpty, !stripped.hasPrefix("."), !stripped.hasSuffix("."), !stripped.utf8.contains(0) else {
            throw WireError(.hostNotFound, "'\(name)' is not the name of a host")
        }
        return stripped
    }

    /// Adds ciphertext that was received from the network.
    func feed(_ bytes: ByteBuffer) {
        if self.buffers.input.readableBytes == 0 {
            self.buffers.input = bytes
        } else {
            self.buffers.input.writeImmutableBuffer(bytes)
        }
    }

    func feed(_ bytes: UnsafeRawBufferPointer) { self.feed(ByteBuffer(bytes: bytes)) }

    func handshake() -> HandshakeStep {
        // "The current thread's error queue must be empty before the TLS/SSL I/O operation is attempted"
        // (SSL_get_error(3)).
        OpenSSLErrors.clear()
        let before = self.buffers.input.readableBytes
        let result = SSL_do_handshake(self.ssl)
        if result == 1 {
            self.bytesWithoutData = 0
            self.buffers.recordCount = 0
            if let error = self.checkApplicationProtocol() { return .failed(error) }
            return .complete
        }
        switch SSL_get_error(self.ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
            if let error = self.countWithoutData(before) { return .failed(error) }
            return .incomplete
        default:
            self.isBroken = true
            let errors = OpenSSLErrors.drain()
            self.failureReason = errors.firstReason
            return .failed(self.handshakeError(errors))
        }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadStep {
        OpenSSLErrors.clear()
        let before = self.buffers.input.readableBytes
        let result = SSL_read(self.ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        if result > 0 {
            let consumed = self.bytesWithoutData + before - self.buffers.input.readableBytes
            self.overhead = TLSOverhead(
                bytes: max(0, consumed - Int(result)),
                emptyRecords: max(0, self.buffers.recordCount - 1)
            )
            self.bytesWithoutData = 0
            self.buffers.recordCount = 0
            return .bytes(Int(result))
        }
        switch SSL_get_error(self.ssl, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE:
            if let error = self.countWithoutData(before) { return .failed(error) }
            return .needsMore
        case SSL_ERROR_ZERO_RETURN:
            return .closeNotify
        default:
            self.isBroken = true
            let errors = OpenSSLErrors.drain()
            self.failureReason = errors.firstReason
            return .failed(Self.recordError(errors))
        }
    }

    /// Counts the bytes that OpenSSL consumed without returning application data.
    ///
    /// - Parameter before: The number of bytes that were available to OpenSSL before the call.
    /// - Returns: An error if ``limitWithoutData`` is exceeded.
    private func countWithoutData(_ before: Int) -> WireError? {
        self.bytesWithoutData += before - self.buffers.input.readableBytes
        guard self.bytesWithoutData > Self.limitWithoutData else { return nil }
        return WireError(.flooded, "the peer sent \(self.bytesWithoutData) bytes of TLS without any data in them")
    }

    /// Encrypts `bytes` into records of at most 16 KiB. Our buffers never make OpenSSL ask for a retry.
    func write(_ bytes: UnsafeRawBufferPointer) -> WireError? {
        if bytes.isEmpty { return nil }
        if self.isBroken { return WireError(.tlsFailure, "the TLS session has failed") }
        guard let count = Int32(exactly: bytes.count) else {
            return WireError(.invariantBroken, "\(bytes.count) bytes are too many for one write")
        }
        OpenSSLErrors.clear()
        let result = SSL_write(self.ssl, bytes.baseAddress, count)
        if result == count { return nil }
        self.isBroken = true
        return Self.recordError(OpenSSLErrors.drain())
    }

    /// How many bytes are waiting to be sent to the network.
    var outputCount: Int { self.buffers.output.readableBytes }

    /// Takes the bytes for the network, without copying.
    func takeOutput() -> ByteBuffer {
        let output = self.buffers.output
        self.buffers.output = ByteBuffer()
        return output
    }

    /// Appends the bytes for the network to `buffer`.
    func takeOutput(into buffer: inout ByteBuffer) {
        buffer.writeImmutableBuffer(self.takeOutput())
    }

    /// Sends `close_notify` once, and does not wait for the peer's (RFC 8446, section 6.1).
    func closeNotify() {
        if self.isBroken { return }
        OpenSSLErrors.clear()
        _ = SSL_shutdown(self.ssl)
        OpenSSLErrors.clear()
    }

    /// The negotiated application protocol (ALPN).
    var applicationProtocol: String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(self.ssl, &name, &length)
        return name.map { PeerText.printable(UnsafeBufferPointer(start: $0, count: Int(length))) }
    }

    private func checkApplicationProtocol() -> WireError? {
        guard self.context.role == .client else { return nil }
        let chosen = self.applicationProtocol
        if chosen == "h2" { return nil }
        return Self.noHTTP2(peerName: self.peerName, chosen: chosen)
    }

    private static func noHTTP2(peerName: String, chosen: String?) -> WireError {
        WireError(
            .noHTTP2,
            """
            '\(peerName)' does not speak HTTP/2: it chose \(chosen.map { "'\($0)'" } ?? "no protocol") instead of 'h2' \
            (ALPN). A proxy may be intercepting TLS
            """
        )
    }

    /// Whether the peer has sent a part of a handshake that is not complete.
    var hasInput: Bool { self.isBroken || self.bytesWithoutData > 0 }

    /// The name in the server name indication, made safe for logs. Server only.
    var requestedName: String? {
        SSL_get_servername(self.ssl, TLSEXT_NAMETYPE_host_name).map { PeerText.printable(String(cString: $0)) }
    }

    /// The result of checking the peer's certificate.
    var verificationText: String { String(cString: X509_verify_cert_error_string(SSL_get_verify_result(self.ssl))) }

    /// Why a client does not trust the server's certificate.
    var verificationError: WireError? {
        let verification = SSL_get_verify_result(self.ssl)
        guard self.context.role == .client, verification != Int(X509_V_OK) else { return nil }
        let host = self.peerName
        switch Int32(clamping: verification) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            return WireError(.certificateExpired, "the certificate of '\(host)' has expired")
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return WireError(
                .certificateNotYetValid,
                "the certificate of '\(host)' is not valid yet: check this machine's clock"
            )
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            return WireError(.certificateForOtherHost, "the certificate is for another host than '\(host)'")
        default:
            return WireError(
                .certificateUntrusted,
                "the certificate of '\(host)' is not trusted: \(self.verificationText). Is a CA file missing?"
            )
        }
    }

    private func handshakeError(_ errors: OpenSSLErrors) -> WireError {
        if self.context.role == .server {
            return WireError(.handshakeFailed, "the TLS handshake failed: \(errors.text)")
        }
        if let error = self.verificationError { return error }
        if errors.firstReason == Self.alertOffset + 40, capns_certificate_was_requested(self.ssl) == 1 {
            // Alert 40 is handshake_failure. TLS 1.2 has no separate alert for a missing certificate (RFC 5246, section
            // 7.4.6).
            return Self.clientCertificateRefused(errors, peerName: self.peerName)
        }
        return Self.alertError(errors, peerName: self.peerName)
            ?? WireError(.handshakeFailed, "the TLS handshake with '\(self.peerName)' failed: \(errors.text)")
    }

    /// The error for a failure after the handshake, when the peer is known to support TLS and HTTP/2. Only an alert
    /// about our certificate, which TLS 1.3 servers send late, is then a fault of the configuration.
    private static func recordError(_ errors: OpenSSLErrors) -> WireError {
        if self.isAboutClientCertificate(errors) { return self.clientCertificateRefused(errors, peerName: "the peer") }
        return WireError(.tlsFailure, "TLS failed: \(errors.text)")
    }

    /// The error for an alert from the peer, or for a peer that does not speak TLS. OpenSSL reports an alert as reason
    /// 1000 + alert number (RFC 8446, section 6.2).
    private static func alertError(_ errors: OpenSSLErrors, peerName: String) -> WireError? {
        switch errors.firstReason {
        case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_PACKET_LENGTH_TOO_LONG:
            return WireError(.notTLS, "'\(peerName)' does not speak TLS on this port")
        case Self.alertOffset + 120:  // no_application_protocol
            return self.noHTTP2(peerName: peerName, chosen: nil)
        default:
            return self.isAboutClientCertificate(errors)
                ? self.clientCertificateRefused(errors, peerName: peerName) : nil
        }
    }

    private static func isAboutClientCertificate(_ errors: OpenSSLErrors) -> Bool {
        switch errors.firstReason - Self.alertOffset {
        // 42 to 46 and 48: the certificate. 51, decrypt_error: a signature in the certificate or one made with its
        // key is wrong. 116: no certificate was sent.
        case 42...46, 48, 51, 116: true
        default: false
        }
    }

    private static func clientCertificateRefused(_ errors: OpenSSLErrors, peerName: String) -> WireError {
        WireError(
            .clientCertificateRefused,
            "\(peerName) refused the client certificate or requires one: \(errors.text)"
        )
    }

    /// OpenSSL reports an alert of the peer as this reason plus the alert's number.
    static let alertOffset: Int32 = 1000
}
