package import NIOCore

/// Handles the requests of a server's connection. All calls are made on the connection's event loop.
package protocol ServerConnectionDelegate: AnyObject {
    /// TLS is established. No byte of HTTP/2 has been sent yet.
    func opened()
    func received(_ requests: [ServerRequest])
    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode)
    /// The client did not get as far as its first SETTINGS. `closed` follows.
    func failed(_ failure: FailedEntrance)
    func closed(_ error: WireError)
}

extension ServerConnectionDelegate {
    package func opened() {}
    package func failed(_ failure: FailedEntrance) {}
}

/// One accepted TLS and HTTP/2 connection. Confined to its event loop.
package final class ServerConnection {
    package let loop: any EventLoop
    package weak var delegate: (any ServerConnectionDelegate)?
    private var handler: WireHandler?
    private var session: HTTP2ServerSession?
    private var configuration = HTTP2ServerSession.Configuration()
    private var tls: TLSSession?
    private var gate: ServerGate?
    /// Retains the delegate as long as the channel exists.
    private var retainedDelegate: (any ServerConnectionDelegate)?

    init(loop: any EventLoop) {
        self.loop = loop
    }

    func makeHandlers(_ entrance: ServerEntrance) throws(WireError) -> (gate: ServerGate, wire: WireHandler) {
        let tls = try TLSSession(context: entrance.tls, peerName: "")
        let handler = WireHandler(tls: tls, owner: self)
        let gate = ServerGate(entrance: entrance)
        self.configuration = entrance.configuration
        self.tls = tls
        self.handler = handler
        self.gate = gate
        return (gate, handler)
    }

    func retain(_ delegate: any ServerConnectionDelegate) {
        self.retainedDelegate = delegate
        self.delegate = delegate
    }

    /// Whether frames can be sent.
    package var isOpen: Bool { self.session != nil }

    /// The number of streams that the client opened and that are not closed yet.
    package var openStreamCount: Int { self.session?.streams.count ?? 0 }

    /// Whether a stream that the client opened is not closed yet.
    package func hasStream(_ streamID: Int32) -> Bool { self.session?.streams.index(of: streamID) != nil }

    /// Responds to a request. A response submitted during a call of the delegate is sent after it. Any other response
    /// is sent by `flush()`.
    package func respond(streamID: Int32, status: Int, fields: FieldList, body: [UInt8]) {
        self.perform { session throws(WireError) in
            try session.respond(streamID: streamID, status: status, fields: fields, body: body)
        }
    }

    package func reset(streamID: Int32, code: HTTP2ErrorCode) {
        self.perform { session throws(WireError) in try session.submitReset(streamID: streamID, code: code) }
    }

    /// Sends a GOAWAY.
    ///
    /// - Parameter lastStreamID: The last stream that was or may be processed. `nil` means the last stream that the
    ///   client opened.
    package func goAway(lastStreamID: Int32?, code: HTTP2ErrorCode, debugData: [UInt8]) {
        self.perform { session throws(WireError) in
            try session.submitGoAway(lastStreamID: lastStreamID, code: code, debugData: debugData)
        }
    }

    package func set(maxConcurrentStreams: UInt32) {
        self.perform { session throws(WireError) in
            try session.submitSettings(maxConcurrentStreams: maxConcurrentStreams)
        }
    }

    /// Sends SETTINGS with these identifiers and values (RFC 9113, section 6.5).
    package func set(_ settings: [(identifier: UInt16, value: UInt32)]) {
        self.perform { session throws(WireError) in try session.submitSettings(settings) }
    }

    // MARK: Misbehaviour

    /// Responds to a request with the given ending.
    package func respond(streamID: Int32, status: Int, fields: FieldList, body: [UInt8], ending: ResponseEnding) {
        self.perform { session throws(WireError) in
            try session.respond(streamID: streamID, status: status, fields: fields, body: body, ending: ending)
        }
    }

    /// Sends an interim response with a status from 100 to 199.
    package func inform(streamID: Int32, status: Int) {
        self.perform { session throws(WireError) in try session.inform(streamID: streamID, status: status) }
    }

    /// Sends bytes unchanged, after all frames that were submitted before. nghttp2 does not know about them.
    package func write(_ bytes: [UInt8]) {
        guard self.session != nil else { return }
        self.handler?.flush()
        // The flush may have detected the end of the connection.
        guard self.session != nil, let tls else { return }
        if let error = bytes.withUnsafeBytes({ tls.write($0) }) {
            self.handler?.fail(error)
        } else {
            self.handler?.flush()
        }
    }

    /// Closes the connection with a TCP reset.
    package func reset() {
        self.gate?.resetOnClose()
        self.drop()
    }

    /// Discards all output from now on, while the server itself keeps running: a half-open connection. Ends with
    /// `drop()`, `reset()`, or when the client closes the connection.
    ///
    /// - Parameter reads: Whether the client's bytes are read and processed. Otherwise they stay in the sockets'
    ///   buffers.
    package func silence(reads: Bool) {
        self.gate?.loseOutput()
        if !reads { self.gate?.stopReading() }
    }

    /// Processes at most this many bytes of input in each interval. A later call changes only the number of bytes.
    package func readSlowly(bytes: Int, every interval: TimeAmount) {
        self.gate?.readSlowly(bytes: bytes, every: interval)
    }

    package func flush() {
        self.handler?.flush()
    }

    /// Closes the connection with `close_notify`.
    package func close() {
        self.handler?.fail(WireError(.closedLocally, "the server closed the connection"))
    }

    /// Closes the connection without notifying the client.
    package func drop() {
        self.handler?.drop(WireError(.closedLocally, "the server dropped the connection"))
    }

    private func perform(_ body: (HTTP2ServerSession) throws(WireError) -> Void) {
        guard let session else { return }
        do {
            try body(session)
        } catch {
            self.handler?.fail(error)
        }
    }
}

extension ServerConnection: WireOwner {
    func makeSession() throws(WireError) -> HTTP2Session {
        let session = try HTTP2ServerSession(configuration: self.configuration)
        self.session = session
        return session
    }

    func wireIsOpen() { self.delegate?.opened() }

    /// Responses have no deadlines.
    func wireResumesWriting() {}

    func wireDidRead() {
        guard let session else { return }
        session.events.removeAll(keepingCapacity: true)
        if !session.requests.isEmpty {
            var requests: [ServerRequest] = []
            requests.reserveCapacity(64)
            swap(&requests, &session.requests)
            self.delegate?.received(requests)
        }
        if !session.closedStreams.isEmpty {
            let closed = session.closedStreams
            session.closedStreams.removeAll(keepingCapacity: true)
            for (streamID, code) in closed { self.delegate?.streamClosed(streamID, code: code) }
        }
    }

    func wireIsClosed(_ error: WireError) {
        let delegate = self.retainedDelegate
        if let failure = self.failure(error) {
            if failure.cause.isRefusedCertificate { self.gate?.lingerOnClose(.seconds(2)) }
            delegate?.failed(failure)
        }
        self.session = nil
        self.handler = nil
        self.tls = nil
        self.gate = nil
        self.retainedDelegate = nil
        delegate?.closed(error)
    }

    private func failure(_ error: WireError) -> FailedEntrance? {
        guard error.code != .closedLocally, self.session?.hasPeerSettings != true, let tls, let gate else { return nil }
        let (local, remote) = gate.addresses
        return FailedEntrance(tls, isEstablished: self.session != nil, error, local: local, remote: remote)
    }
}
