package import NIOCore

/// One connection, established step by step to find what is wrong on the path to a server. Each step blocks its thread,
/// at most for the given timeout. Only `lookUp` has no timeout.
package final class NetworkProbe {
    /// A response to a request.
    package struct Response: Sendable {
        package var status: Int
        /// The `date` field.
        package var date: String?
    }

    private let descriptor: Int32
    /// The host or address, and the port.
    package let address: String
    private let timeout: TimeAmount
    private var tls: TLSSession?

    // MARK: Steps

    /// Returns all addresses of a name.
    package static func lookUp(host: String, port: Int) -> Result<[SocketAddress], WireError> {
        if let address = try? SocketAddress(ipAddress: host, port: port) { return .success([address]) }
        return NameResolver.systemLookUp(host, port)
    }

    /// Connects to one address.
    package init(_ address: SocketAddress, timeout: TimeAmount) throws(WireError) {
        self.timeout = timeout
        self.address = Self.text(address)
        let family = address.protocol == .inet6 ? AF_INET6 : AF_INET
        #if canImport(Glibc)
            let kind = Int32(SOCK_STREAM.rawValue)
        #else
            let kind = SOCK_STREAM
        #endif
        let descriptor = socket(family, kind, 0)
        guard descriptor >= 0 else { throw WireError(.connectFailed, "cannot create a socket: \(Self.lastError)") }
        self.descriptor = descriptor
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        let status = address.withSockAddr { address, length in connect(descriptor, address, socklen_t(length)) }
        var code = status == 0 ? 0 : errno
        if code == EINPROGRESS {
            guard self.wait(for: POLLOUT, until: .now() + timeout) else {
                throw WireError(.connectTimeout, "\(self.address) does not respond")
            }
            var length = socklen_t(MemoryLayout<Int32>.size)
            if getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) != 0 { code = errno }
        }
        switch code {
        case 0: return
        case ECONNREFUSED: throw WireError(.connectRefused, "\(self.address) refuses connections")
        case ETIMEDOUT: throw WireError(.connectTimeout, "\(self.address) does not respond")
        default: throw WireError(.connectFailed, "\(self.address): \(Self.text(code))")
        }
    }

    deinit {
        self.tls?.closeNotify()
        _ = close(self.descriptor)
    }

    /// Requests a tunnel from the proxy at the other end.
    package func tunnel(through proxy: ProxyEndpoint, host: String, port: Int) throws(WireError) {
        var machine = ProxyConnect(proxy, host: host, port: port)
        let deadline = NIODeadline.now() + self.timeout
        try self.send(ByteBuffer(bytes: machine.request), until: deadline)
        while true {
            guard let bytes = try self.receive(until: deadline) else { throw machine.end() }
            switch machine.receive(Array(bytes.readableBytesView)) {
            case .wait: continue
            case .fail(let error): throw error
            // A TLS server sends nothing before the client does, so no bytes follow.
            case .open: return
            }
        }
    }

    /// Performs the TLS handshake even if the certificate is not trusted. The report contains the reason.
    package func handshake(_ context: TLSContext, host: String) throws(WireError) -> HandshakeReport {
        let session = try TLSSession(context: context, peerName: host)
        session.tolerateDistrust()
        let deadline = NIODeadline.now() + self.timeout
        while true {
            let step = session.handshake()
            if session.outputCount > 0 { try self.send(session.takeOutput(), until: deadline) }
            switch step {
            case .complete:
                self.tls = session
                return session.report
            case .failed(let error):
                // Without h2, the rest of the report may still be known.
                let report = session.report
                guard error.code == .noHTTP2, !report.chain.isEmpty else { throw error }
                return report
            case .incomplete:
                guard let bytes = try self.receive(until: deadline) else {
                    throw WireError(.closedByPeer, "'\(host)' closed the connection in the TLS handshake")
                }
                session.feed(bytes)
            }
        }
    }

    /// Requests `/` over HTTP/2, without any credential. Any response is sufficient.
    package func ask(authority: String) throws(WireError) -> Response {
        guard let tls else { throw WireError(.tlsFailure, "there is no TLS session") }
        let session = try HTTP2ClientSession(configuration: HTTP2ClientSession.Configuration())
        let deadline = NIODeadline.now() + self.timeout
        var isAsked = false
        while true {
            if !isAsked, session.hasCapacity {
                let fields: [HeaderBlock.Field] = [
                    .init(":method", "GET"), .init(":scheme", "https"), .init(":authority", authority),
                ]
                var lengths = SIMD8<UInt16>()
                lengths[0] = 1
                let request = HTTP2Request(
                    shared: HeaderBlock(fields),
                    credential: nil,
                    values: Array("/".utf8),
                    valueLengths: lengths,
                    body: []
                )
                _ = try session.submit(request, tag: 1, deadline: deadline, now: .now())
                isAsked = true
            }
            try self.flush(session, tls, until: deadline)
            if let result = session.results.first {
                guard result.ending == .response else {
                    throw WireError(.protocolViolation, "the request ended without a response (\(result.cause))")
                }
                return Response(status: result.status, date: result.fields.first("date").map(PeerText.printable))
            }
            if session.hasGoAway { throw WireError(.goAway, "the server sent GOAWAY instead of a response") }
            try self.receive(session, tls, until: deadline)
        }
    }

    // MARK: HTTP/2 over TLS

    private func flush(_ session: HTTP2Session, _ tls: TLSSession, until deadline: NIODeadline) throws(WireError) {
        while true {
            let frame = try session.nextFrame()
            if frame.isEmpty { break }
            if let error = tls.write(frame) { throw error }
        }
        if tls.outputCount > 0 { try self.send(tls.takeOutput(), until: deadline) }
    }

    private func receive(_ session: HTTP2Session, _ tls: TLSSession, until deadline: NIODeadline) throws(WireError) {
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        while true {
            switch buffer.withUnsafeMutableBytes({ tls.read(into: $0) }) {
            case .bytes(let count):
                var failure: WireError?
                buffer.withUnsafeBytes { bytes in
                    do throws(WireError) {
                        try session.receive(UnsafeRawBufferPointer(rebasing: bytes[..<count]), now: .now())
                    } catch {
                        failure = error
                    }
                }
                if let failure { throw failure }
                return
            case .needsMore:
                guard let bytes = try self.receive(until: deadline) else {
                    throw WireError(.closedByPeer, "the server closed the connection before its response")
                }
                tls.feed(bytes)
            case .closeNotify:
                throw WireError(.closedByPeer, "the server closed the connection before its response")
            case .failed(let error):
                throw error
            }
        }
    }

    // MARK: The socket

    private func wait(for events: Int32, until deadline: NIODeadline) -> Bool {
        while true {
            let left = (deadline - .now()).nanoseconds
            guard left > 0 else { return false }
            var request = pollfd(fd: self.descriptor, events: Int16(events), revents: 0)
            let count = poll(&request, 1, Int32(clamping: left / 1_000_000 + 1))
            if count > 0 { return true }
            if count < 0, errno != EINTR { return true }
        }
    }

    private func send(_ buffer: ByteBuffer, until deadline: NIODeadline) throws(WireError) {
        var rest = buffer
        while rest.readableBytes > 0 {
            guard deadline > .now() else { throw self.silence }
            let count = rest.withUnsafeReadableBytes { write(self.descriptor, $0.baseAddress, $0.count) }
            if count > 0 {
                rest.moveReaderIndex(forwardBy: count)
            } else if errno == EAGAIN {
                guard self.wait(for: POLLOUT, until: deadline) else { throw self.silence }
            } else if errno != EINTR {
                throw WireError(.connectionReset, "\(self.address): \(Self.lastError)")
            }
        }
    }

    /// Returns `nil` at the end of the stream.
    private func receive(until deadline: NIODeadline) throws(WireError) -> ByteBuffer? {
        var bytes = [UInt8](repeating: 0, count: 16 * 1024)
        while true {
            // Checked each time, because the peer may never pause.
            guard deadline > .now() else { throw self.silence }
            let count = bytes.withUnsafeMutableBytes { read(self.descriptor, $0.baseAddress, $0.count) }
            if count > 0 { return ByteBuffer(bytes: bytes[..<count]) }
            if count == 0 { return nil }
            if errno == EAGAIN {
                guard self.wait(for: POLLIN, until: deadline) else { throw self.silence }
            } else if errno != EINTR {
                throw WireError(.connectionReset, "\(self.address): \(Self.lastError)")
            }
        }
    }

    private var silence: WireError { WireError(.connectTimeout, "\(self.address) sent no complete response in time") }

    private static var lastError: String { self.text(errno) }

    private static func text(_ code: Int32) -> String {
        strerror(code).map { String(cString: $0) } ?? "error \(code)"
    }

    package static func text(_ address: SocketAddress) -> String {
        let host = address.ipAddress ?? "?"
        return (host.contains(":") ? "[\(host)]" : host) + ":\(address.port ?? 0)"
    }
}
