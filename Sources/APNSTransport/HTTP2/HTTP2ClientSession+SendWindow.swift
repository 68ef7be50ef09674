import CAPNSNghttp2
package import NIOCore

extension HTTP2ClientSession {
    /// Whether requests are being held: for the send window, or because the path is being checked.
    package var hasHeldRequests: Bool { !self.held.isEmpty }

    private var sendWindow: Int { self.withSession { Int(nghttp2_session_get_remote_window_size($0)) } ?? 0 }

    /// Whether a request must be held. Its HEADERS must not be sent if its body cannot follow, because a request that
    /// was written may have been processed.
    func mustHold(bodyCount: Int, isBulk: Bool) -> Bool {
        if self.waitsForPathCheck { return true }
        guard bodyCount > 0 else { return false }
        return self.held.isWaiting(isBulk: isBulk)
            || !self.windowRule.admits(
                bodyCount,
                isBulk: isBulk,
                window: self.sendWindow,
                committed: self.uncopiedBodyBytes
            )
    }

    /// Holds a request.
    ///
    /// - Parameters:
    ///   - stream: The request.
    ///   - values: The values of its variable fields.
    func hold(_ stream: NewStream, _ values: UnsafeBufferPointer<UInt8>) {
        self.bodies.retain(entry: stream.body)
        self.retainShared(stream.sharedFields)
        self.held.append(stream, values)
        self.openCount += 1
    }

    private func drop(_ request: HeldRequest) {
        self.bodies.release(entry: request.stream.body)
        self.releaseShared(request.stream.sharedFields)
    }

    /// Opens streams for held requests, as far as the send window allows. Must be called after the window may have
    /// grown.
    ///
    /// - Returns: The earliest deadline of the opened streams.
    func openHeld(now: NIODeadline) throws(WireError) -> NIODeadline {
        var earliest = NIODeadline.distantFuture
        if self.waitsForPathCheck { return earliest }
        while let request = self.held.first {
            let stream = request.stream
            let window = self.sendWindow
            guard
                self.windowRule.admits(
                    stream.bodyCount,
                    isBulk: stream.isBulk,
                    window: window,
                    committed: self.uncopiedBodyBytes
                )
            else {
                // Without an open stream, the server has responded to everything it received. It has no reason to
                // enlarge the window, so waiting would never end.
                if window > 0, self.streams.count == 0, self.windowRule.relax(isProof: true) { continue }
                return earliest
            }
            try self.open(request, now: now)
            earliest = min(earliest, stream.streamDeadline(now))
        }
        return earliest
    }

    /// Opens a stream for the first held request.
    private func open(_ request: HeldRequest, now: NIODeadline) throws(WireError) {
        let stream = request.stream
        self.openCount -= 1
        let result = self.held.withValues(of: request) { self.open(stream, $0, now: now) }
        self.held.removeFirst()
        self.drop(request)
        switch result {
        case .success(.accepted):
            break
        case .success(.refused(let cause)):
            self.results.append(.notSent(cause, tag: stream.tag))
        case .failure(let error):
            self.results.append(.notSent(.faulty, tag: stream.tag))
            throw error
        }
    }

    /// Relaxes the send window rule until the window grows, because it has not grown for a while.
    ///
    /// - Returns: The earliest deadline of the streams that were opened.
    package func relaxSendWindow(now: NIODeadline) throws(WireError) -> NIODeadline {
        _ = self.windowRule.relax(isProof: false)
        return try self.openHeld(now: now)
    }

    /// Checks whether the send window limits the streams of this connection. Withdraws the held requests that
    /// `WindowStreamLimit` does not let wait any longer.
    ///
    /// - Returns: Whether the limit has changed.
    package func checkWindowLimit() -> Bool {
        let before = self.windowLimit.limit
        let mayWait = self.windowLimit.check(
            oldest: self.held.oldest,
            total: self.held.total,
            inFlight: self.openCount - self.held.count,
            maximum: self.peerMaxConcurrentStreams
        )
        if let mayWait { self.giveUpHeld(cause: .noCapacity, where: self.held.isBehind(mayWait)) }
        return self.windowLimit.limit != before
    }

    /// Whether `checkWindowLimit` must be called again.
    package var hasWindowLimit: Bool { self.windowLimit.limit != nil }

    /// The number of streams that the peer allows, or the smaller number that the send window carries.
    package var streamLimit: Int { min(self.peerMaxConcurrentStreams, self.windowLimit.limit ?? .max) }

    /// Gives a result to each held request for which `condition` holds.
    func giveUpHeld(cause: StreamCause, where condition: (HeldRequest) -> Bool = { _ in true }) {
        guard !self.held.isEmpty else { return }
        for request in self.held.remove(where: condition) {
            self.drop(request)
            self.openCount -= 1
            self.results.append(.notSent(cause, tag: request.stream.tag))
        }
    }
}
