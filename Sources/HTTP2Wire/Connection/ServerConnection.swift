package import NIOCore

/// What a server's connection tells the one who answers. All calls come on the connection's event loop.
package protocol ServerConnectionDelegate: AnyObject {
    func received(_ requests: [ServerRequest])
    func streamClosed(_ streamID: Int32, code: HTTP2ErrorCode)
    func closed(_ error: WireError)
}

/// One accepted TLS + HTTP/2 connection. Confined to its loop.
package final class ServerConnection {
    package let loop: any EventLoop
    package weak var delegate: (any ServerConnectionDelegate)?
    private var handler: WireHandler?
    private var session: HTTP2Session?
    /// Keeps the delegate alive as long as the channel lives.
    private var retainedDelegate: (any ServerConnectionDelegate)?

    init(loop: any EventLoop) {
        self.loop = loop
    }

    func makeHandler(tls: TLSContext, configuration: HTTP2Session.Configuration) throws(WireError) -> WireHandler {
        let handler = WireHandler(
            tls: try TLSSession(context: tls, peerName: ""),
            role: .server,
            configuration: configuration,
            owner: self
        )
        self.handler = handler
        return handler
    }

    func retain(_ delegate: any ServerConnectionDelegate) {
        self.retainedDelegate = delegate
        self.delegate = delegate
    }

    /// Whether frames can be sent.
    package var isOpen: Bool { self.session != nil }

    /// Streams that the client opened and that are not closed yet.
    package var openStreamCount: Int { self.session?.streams.count ?? 0 }

    /// Answers a request. Sent at the end of the tick, or by `flush()`.
    package func respond(streamID: Int32, status: Int, fields: FieldList, body: [UInt8]) {
        self.perform { session throws(WireError) in
            try session.respond(streamID: streamID, status: status, fields: fields, body: body)
        }
    }

    package func reset(streamID: Int32, code: HTTP2ErrorCode) {
        self.perform { session throws(WireError) in try session.submitReset(streamID: streamID, code: code) }
    }

    /// - Parameter lastStreamID: nil: the last stream that the client opened.
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

    package func flush() {
        self.handler?.flush()
    }

    /// Closes with `close_notify`.
    package func close() {
        self.handler?.fail(WireError(.closedLocally, "the server closed the connection"))
    }

    /// Closes without a word.
    package func drop() {
        self.handler?.drop(WireError(.closedLocally, "the server dropped the connection"))
    }

    /// Reads on without looking and says nothing any more, not even to a PING: a half-open connection. Ends with
    /// `drop()`, `close()` or the client's end.
    package func mute() {
        self.handler?.mute()
    }

    private func perform(_ body: (HTTP2Session) throws(WireError) -> Void) {
        guard let session else { return }
        do {
            try body(session)
        } catch {
            self.handler?.fail(error)
        }
    }
}

extension ServerConnection: WireOwner {
    func wireIsOpen(_ session: HTTP2Session) {
        self.session = session
    }

    func wireDidRead(_ session: HTTP2Session) {
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

    func wireIsClosed(_ session: HTTP2Session?, _ error: WireError) {
        let delegate = self.retainedDelegate
        self.session = nil
        self.handler = nil
        self.retainedDelegate = nil
        delegate?.closed(error)
    }
}
