import CAPNSNghttp2

extension HTTP2Session {
    /// Whether requests wait, for the send window or because of `holdsRequests`.
    package var isHoldingRequests: Bool { !self.held.isEmpty }

    private var sendWindow: Int { self.withSession { Int(nghttp2_session_get_remote_window_size($0)) } ?? 0 }

    /// Whether a request must wait: its HEADERS shall not leave when its body cannot follow, since whatever was written
    /// may have been processed.
    func mustHold(bodyCount: Int, isBulk: Bool) -> Bool {
        if self.holdsRequests { return true }
        guard bodyCount > 0 else { return false }
        return self.held.isWaiting(isBulk: isBulk)
            || !self.windowRule.admits(
                bodyCount,
                isBulk: isBulk,
                window: self.sendWindow,
                committed: self.uncopiedBodyBytes
            )
    }

    /// - Parameter stream: with its fixed fields laid out.
    func hold(_ stream: NewStream, _ values: UnsafeBufferPointer<UInt8>) {
        self.bodies.retain(entry: stream.body)
        self.retainFixed(stream.fixed)
        self.held.append(stream, values)
        self.openCount += 1
    }

    private func drop(_ request: HeldRequest) {
        self.bodies.release(entry: request.stream.body)
        self.releaseFixed(request.stream.fixed)
    }

    /// Opens streams for the requests that wait, as far as the send window reaches.
    func openHeld() throws(WireError) {
        if self.holdsRequests { return }
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
                // With no stream open the server has answered all that it got; waiting would be for ever.
                if window > 0, self.streams.count == 0, self.windowRule.relax(isProof: true) { continue }
                return
            }
            try self.open(request)
        }
    }

    /// Opens the stream of the first request that waits.
    private func open(_ request: HeldRequest) throws(WireError) {
        let stream = request.stream
        self.openCount -= 1
        self.layOut(entry: stream.fixed)
        let result = self.held.withValues(of: request) { self.open(stream, $0) }
        self.held.removeFirst()
        self.drop(request)
        switch result {
        case .success(.accepted):
            break
        case .success(.noCapacity):
            self.results.append(.notSent(.noCapacity, tag: stream.tag))
        case .failure(let error):
            self.results.append(.notSent(.faulty, tag: stream.tag))
            throw error
        }
    }

    /// The window has not grown for a while: demands less until it grows.
    package func relaxSendWindow() throws(WireError) {
        _ = self.windowRule.relax(isProof: false)
        try self.openHeld()
    }

    /// Gives the requests that wait their result, if `condition` holds.
    func giveUpHeld(cause: StreamCause, where condition: (HeldRequest) -> Bool = { _ in true }) {
        guard !self.held.isEmpty else { return }
        for request in self.held.remove(where: condition) {
            self.drop(request)
            self.openCount -= 1
            self.results.append(.notSent(cause, tag: request.stream.tag))
        }
    }
}
