package import NIOCore
import NIOPosix

/// One TLS and HTTP/2 connection to a server. It is opened once, used until it ends, and never reused. Confined to its
/// event loop.
package final class Connection {
    package let id: Int
    private let configuration: Configuration
    private let loop: any EventLoop
    private var delegate: (any ConnectionDelegate)?
    /// Kept because a request that is submitted after the end still needs a result.
    private weak var formerDelegate: (any ConnectionDelegate)?
    private var handler: WireHandler?
    private(set) var session: HTTP2ClientSession?
    /// The completed TLS handshake, or one that ended because the server does not speak HTTP/2; nil unless the
    /// configuration tolerates distrust.
    package private(set) var handshake: HandshakeReport?
    private var life = ConnectionLife()
    private var pathCheck: PathCheck
    /// When the last frame arrived that advanced an open stream.
    package private(set) var lastResponse: NIODeadline
    private var seenProgressFrames: UInt64 = 0
    /// When the connection last went from no open stream to one. If its first requests had to wait for a check of the
    /// path: when they were sent. See `quietSince`.
    private var busySince: NIODeadline
    /// The channels being connected: one for each address that is tried, or the one to the proxy.
    private(set) var pendingChannels: [any Channel] = []
    private var resolver: ConnectionResolver?
    private var windowWatch = SendWindowWatch()
    /// The time of the submissions since the last flush; nil if there were none.
    private var tickTime: NIODeadline?
    private var timer: LoopTimer?
    private var timerDeadline = NIODeadline.distantFuture
    /// The error of a request or PING of this tick that could not be submitted. The connection ends at the next flush.
    private var broken: WireError?

    /// Creates a connection without opening it.
    ///
    /// - Parameters:
    ///   - id: Identifies this connection in calls of the delegate.
    ///   - configuration: The connection's settings.
    ///   - loop: The event loop that the caller is on.
    ///   - delegate: Receives the connection's events.
    package init(id: Int, configuration: Configuration, loop: any EventLoop, delegate: any ConnectionDelegate) {
        self.id = id
        self.configuration = configuration
        self.loop = loop
        self.delegate = delegate
        let now = configuration.clock.now(on: loop)
        self.pathCheck = PathCheck(limits: configuration.pathCheck, now: now)
        self.lastResponse = now
        self.busySince = now
    }

    // MARK: Lifecycle

    /// Starts to connect. The delegate is notified with `isReady…` or `isClosed`.
    package func open() {
        self.open(resolver: nil)
    }

    /// For tests: starts to connect with another resolver.
    func open(resolver: (any Resolver & Sendable)?) {
        self.loop.assertInEventLoop()
        guard self.life.state == .connecting, self.handler == nil else { return }
        let handler: WireHandler
        do {
            handler = try self.makeHandler()
        } catch {
            // Notify in a later tick, because the delegate is still inside its call of `open()`.
            self.loop.assumeIsolated().execute { self.wireIsClosed(error) }
            return
        }
        self.handler = handler
        self.life.began(deadline: self.now + self.configuration.connectTimeout)
        self.arm(self.life.connectDeadline)

        // The bootstrap's own timeout follows the loop's time and starts after ours. It fires first only if a test's
        // clock stands still. The handler is added only to the channel that was established: Happy Eyeballs makes a
        // channel for each address.
        let bootstrap = ClientBootstrap(group: self.loop)
            .connectTimeout(self.configuration.connectTimeout)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { [connection = NIOLoopBound(self, eventLoop: self.loop)] channel in
                connection.value.began(channel)
            }
        let host = self.configuration.proxy?.host ?? self.configuration.host
        let port = self.configuration.proxy?.port ?? self.configuration.port
        let connected: EventLoopFuture<any Channel>
        if let address = try? SocketAddress(ipAddress: host, port: port) {
            connected = bootstrap.connect(to: address)
        } else {
            // A resolver holds promises that must be completed, so one is made only if it is then used.
            connected = bootstrap.resolver(resolver ?? self.makeResolver()).connect(host: host, port: port)
        }
        connected.assumeIsolated().whenComplete { result in
            switch result {
            case .failure(let error):
                var error = WireError(connecting: error, to: host)
                if let proxy = self.configuration.proxy { error.message = "the proxy '\(proxy)': \(error.message)" }
                self.wireIsClosed(error)
            case .success(let channel):
                self.start(on: channel)
            }
        }
    }

    private func makeResolver() -> ConnectionResolver {
        let resolver = ConnectionResolver(loop: self.loop, names: self.configuration.nameResolver)
        self.resolver = resolver
        return resolver
    }

    /// Stores the channel, so that a connection that is closed before it is established leaves no socket behind.
    private func began(_ channel: any Channel) -> EventLoopFuture<Void> {
        guard self.life.state == .connecting else {
            return channel.eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel)
        }
        self.pendingChannels.append(channel)
        return channel.eventLoop.makeSucceededVoidFuture()
    }

    private func start(on channel: any Channel) {
        self.pendingChannels.removeAll()
        self.resolver = nil
        guard self.life.state != .closed else {
            channel.close(mode: .all, promise: nil)
            return
        }
        guard let proxy = self.configuration.proxy else {
            self.add(self.handler, to: channel)
            return
        }
        // If the connection ends before the proxy responds, it closes this channel.
        self.pendingChannels.append(channel)
        let machine = ProxyConnect(proxy, host: self.configuration.host, port: self.configuration.port)
        let handler = ProxyHandler(machine) { result in
            self.pendingChannels.removeAll()
            switch result {
            case .success: self.add(self.handler, to: channel)
            case .failure(let error): self.wireIsClosed(error)
            }
        }
        self.add(handler, to: channel)
    }

    private func add(_ handler: (any ChannelHandler)?, to channel: any Channel) {
        guard self.life.state != .closed, let handler else {
            channel.close(mode: .all, promise: nil)
            return
        }
        do {
            try channel.pipeline.syncOperations.addHandler(handler)
            guard channel.isActive else { throw ChannelError.ioOnClosedChannel }
        } catch {
            channel.close(mode: .all, promise: nil)
            self.wireIsClosed(WireError(.connectionReset, "the peer closed the connection at once"))
        }
    }

    /// For tests: uses a channel that already exists.
    package func adopt(_ channel: any Channel) throws {
        let handler = try self.makeHandler()
        self.handler = handler
        self.life.began(deadline: self.now + self.configuration.connectTimeout)
        self.arm(self.life.connectDeadline)
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// For tests: ends the connection as a defect in this library would.
    package func breakInvariant() { self.fail(WireError(.invariantBroken, "a test")) }

    private func makeHandler() throws(WireError) -> WireHandler {
        let tls = try TLSSession(context: self.configuration.tls, peerName: self.configuration.host)
        if self.configuration.toleratesDistrust { tls.tolerateDistrust() }
        return WireHandler(tls: tls, clock: self.configuration.clock, owner: self)
    }

    /// Accepts no new streams, and closes the connection when the open ones have ended.
    package func drain() {
        if self.life.state == .connecting {
            self.close()
        } else {
            self.life.drain()
            self.closeIfDrained()
        }
    }

    /// Closes the connection now. Every open stream gets its result.
    package func close() {
        self.fail(WireError(.closedLocally, "the connection was closed"))
    }

    // MARK: Streams

    /// Submits requests and sends them. Each gets exactly one result.
    package func submit(_ submissions: [StreamSubmission]) {
        for submission in submissions { self.enqueue(submission) }
        self.flush()
    }

    /// Submits a request without sending it. The next `flush()` sends all requests submitted in this tick.
    package func enqueue(_ submission: StreamSubmission) {
        guard let session, self.life.state == .ready, self.broken == nil else {
            self.refuse(submission.tag)
            return
        }
        if session.openCount == 0 { self.becomesBusy(session) }
        do {
            let now = self.submissionTime()
            let submitted = try session.submit(
                submission.request,
                tag: submission.tag,
                deadline: submission.deadline,
                responseLimit: submission.responseLimit,
                isBulk: submission.isBulk,
                now: now
            )
            switch submitted {
            case .accepted: self.arm(min(submission.deadline, now + submission.responseLimit))
            case .refused(let cause): session.results.append(.notSent(cause, tag: submission.tag))
            }
        } catch {
            session.results.append(.notSent(.faulty, tag: submission.tag))
            self.broken = error
        }
    }

    /// Submits a batch without sending it. The requests get consecutive tags, starting with `firstTag`.
    package func enqueue(_ batch: RequestBatch, firstTag: StreamTag) {
        guard let session, self.life.state == .ready, self.broken == nil else {
            for number in batch.entries.indices { self.refuse(firstTag.advanced(by: number)) }
            return
        }
        if session.openCount == 0 { self.becomesBusy(session) }
        let (earliest, broken) = session.submit(batch, firstTag: firstTag, now: self.submissionTime())
        self.arm(earliest)
        self.broken = self.broken ?? broken
    }

    /// The time of all submissions of this tick. It is read once, because reading a clock for each push would cost more
    /// than the rest of this file.
    private func submissionTime() -> NIODeadline {
        if let tickTime { return tickTime }
        let now = self.now
        self.tickTime = now
        return now
    }

    private func becomesBusy(_ session: HTTP2ClientSession) {
        let now = self.submissionTime()
        self.busySince = now
        let decision = self.pathCheck.becomesBusy(now)
        if self.pathCheck.isChecking { session.waitsForPathCheck = true }
        if decision == .ping { self.broken = self.broken ?? self.sendPing(session) }
    }

    private func sendPing(_ session: HTTP2ClientSession?) -> WireError? {
        do throws(WireError) {
            try session?.submitPing()
            return nil
        } catch {
            return error
        }
    }

    /// Sends all submitted requests together, and delivers the results that are available.
    package func flush() {
        self.tickTime = nil
        if let broken {
            self.broken = nil
            self.fail(broken)
            return
        }
        if self.openStreams > 0 { self.arm(self.pathCheck.deadline(openStreams: self.openStreams)) }
        if self.windowWatch.deadline == nil { self.watchWindow(self.session) }
        self.handler?.flush()
        self.deliverResults()
    }

    private func refuse(_ tag: StreamTag) {
        if let session {
            session.results.append(.notSent(.noCapacity, tag: tag))
        } else {
            self.deliver([.notSent(.noCapacity, tag: tag)])
        }
    }

    /// Resets the stream with this tag if it is still open, or withdraws the held request with this tag. The next
    /// `flush()` sends the reset and delivers the result.
    package func cancel(tag: StreamTag) {
        self.session?.cancel(tag: tag)
    }

    /// The number of streams and held requests without a result.
    package var openStreams: Int { self.session?.openCount ?? 0 }

    /// When a frame of any response last arrived, or when the connection last went from no open stream to one,
    /// whichever is later. If these first requests had to wait for a check of the path, they count from when they were
    /// sent.
    package var quietSince: NIODeadline { max(self.lastResponse, self.busySince) }

    /// Whether so many stream ids are used up that the connection should be replaced.
    package var isNearlyExhausted: Bool { self.session?.isNearlyExhausted ?? false }

    // MARK: Events and results

    private func fail(_ error: WireError) {
        guard self.life.failed(error) else { return }
        // Frames that nghttp2 still holds must not be sent together with the GOAWAY.
        self.session?.giveUpUnwritten(cause: error.streamCause)
        if let handler, let session, error.code != .connectionReset {
            try? session.submitGoAway(lastStreamID: 0, code: .noError)
            handler.fail(error)
        } else if let handler, self.session != nil {
            handler.fail(error)
        } else {
            self.handler?.drop(error)
            self.wireIsClosed(error)
        }
    }

    /// Ends a connection that has been quiet for so long that its next request would wait for a check of the path,
    /// because another connection to the same server failed such a check: a middlebox has probably forgotten both. A
    /// connection with requests that wait for a check ends, too; one with requests under way does not.
    package func siblingLostPath() {
        guard self.life.state == .ready, self.pathCheck.isSuspect(self.now, openStreams: self.openStreams) else {
            return
        }
        self.fail(WireError(.pingTimeout, "another connection's path to the server was lost, and this one was quiet"))
    }

    private func closeIfDrained() {
        if let error = self.life.endOfDrain(openStreams: self.openStreams) { self.fail(error) }
    }

    private func deliverResults() {
        guard let session, !session.results.isEmpty else { return }
        var results: [StreamResult] = []
        results.reserveCapacity(64)
        swap(&results, &session.results)
        self.deliver(results)
        self.closeIfDrained()
    }

    private func deliver(_ results: [StreamResult]) {
        if !results.isEmpty { (self.delegate ?? self.formerDelegate)?.connection(self.id, finished: results) }
    }

    private func handle(_ event: HTTP2Event) {
        switch event {
        case .settings(let limit):
            switch self.life.receivedSettings() {
            case .ready: self.delegate?.connection(self.id, isReadyWithMaxConcurrentStreams: limit)
            case .changed:
                self.delegate?.connection(self.id, streamLimitChangedTo: self.session?.streamLimit ?? limit)
            case .late: break
            }
        case .goAway(_, let code, let debugData):
            if let error = self.life.receivedGoAway(code, debugData: debugData) {
                self.delegate?.connection(self.id, isGoingAway: error)
            }
        case .pingAcknowledged:
            // The requests that a check has held count as opened now; see `quietSince`.
            if self.pathCheck.acknowledged(self.now) { self.busySince = self.now }
            self.pathWorks()
        }
    }

    /// Sends the requests that waited for the path check.
    private func pathWorks() {
        guard let session, session.waitsForPathCheck else { return }
        session.waitsForPathCheck = false
        self.sendHeld(session, self.now)
        self.watchWindow(session)
        self.handler?.flush()
    }

    /// Sends held requests, as far as the send window allows.
    private func sendHeld(_ session: HTTP2ClientSession, _ now: NIODeadline) {
        guard session.hasHeldRequests else { return }
        do {
            self.arm(try session.openHeld(now: now))
        } catch {
            self.fail(error)
        }
    }

    // MARK: Time

    private var now: NIODeadline { self.configuration.clock.now(on: self.loop) }

    /// Arms the connection's only timer for this deadline, unless the timer is already armed for an earlier one.
    private func arm(_ deadline: NIODeadline) {
        guard self.life.state != .closed, deadline < self.timerDeadline else { return }
        self.timer?.cancel()
        self.timerDeadline = deadline
        // The timer retains the connection; `wireIsClosed` cancels it. With a weak reference, every later retain of the
        // connection would be slower.
        self.timer = self.configuration.clock.schedule(at: deadline, on: self.loop) { self.timerFired() }
    }

    private func timerFired() {
        self.timer = nil
        self.timerDeadline = .distantFuture
        guard self.life.state != .closed else { return }
        let now = self.now
        if self.life.state == .connecting, now >= self.life.connectDeadline {
            let tcp = self.configuration.proxy.map { "TCP, the tunnel of the proxy '\($0)'" } ?? "TCP"
            // A channel is made when an address is known.
            let isLookUp = self.resolver != nil && self.pendingChannels.isEmpty
            let way = isLookUp ? "the look-up of its address has not ended" : "\(tcp), TLS, SETTINGS"
            let host = self.configuration.host
            self.fail(WireError(.connectTimeout, "'\(host)' was not ready within the connect timeout (\(way))"))
            return
        }
        let isOpen = self.life.isOpen
        let decision = isOpen ? self.pathCheck.timer(now, openStreams: self.openStreams) : .nothing
        if decision == .pathIsLost {
            self.fail(WireError(.pingTimeout, "the peer acknowledged no PING in time: the path to it is lost"))
            return
        }
        let next = self.session?.expire(now: now)
        // A request that is written before the acknowledgement may be lost, too.
        if decision == .ping { self.session?.waitsForPathCheck = true }
        if let error = (decision == .ping ? self.sendPing(self.session) : nil) ?? self.checkWindow(now) {
            self.fail(error)
            return
        }
        self.handler?.flush()
        self.deliverResults()
        guard self.life.state != .closed else { return }
        if let next { self.arm(next) }
        if let deadline = self.windowWatch.deadline { self.arm(deadline) }
        if self.life.state == .connecting { self.arm(self.life.connectDeadline) }
        if isOpen { self.arm(self.pathCheck.deadline(openStreams: self.openStreams)) }
    }

    private func watchWindow(_ session: HTTP2ClientSession?) {
        guard let session, session.hasHeldRequests || session.hasWindowLimit, !session.waitsForPathCheck else { return }
        self.arm(self.windowWatch.begin(self.now, updates: session.windowUpdates))
    }

    private func checkWindow(_ now: NIODeadline) -> WireError? {
        guard let session, let hasGrown = self.windowWatch.end(now, updates: session.windowUpdates) else { return nil }
        do {
            if !hasGrown, session.hasHeldRequests { self.arm(try session.relaxSendWindow(now: now)) }
        } catch {
            return error
        }
        if !session.waitsForPathCheck, session.checkWindowLimit(), self.life.state == .ready {
            self.delegate?.connection(self.id, streamLimitChangedTo: session.streamLimit)
        }
        self.watchWindow(session)
        return nil
    }
}

extension Connection: WireOwner {
    func makeSession() throws(WireError) -> HTTP2Session {
        var configuration = HTTP2ClientSession.Configuration()
        configuration.variableNames = self.configuration.variableNames
        configuration.responseFilter = self.configuration.responseFilter
        configuration.responseBodyLimit = self.configuration.responseBodyLimit
        let session = try HTTP2ClientSession(configuration: configuration)
        if self.configuration.toleratesDistrust { self.handshake = self.handler?.handshakeReport }
        if let id = self.configuration.firstStreamID { try? session.setNextStreamID(id) }
        self.session = session
        return session
    }

    func wireIsOpen() {}

    /// The deadlines of requests may have passed meanwhile, and their timer may fire later in this tick.
    func wireResumesWriting() {
        _ = self.session?.expire(now: self.now)
        self.deliverResults()
    }

    func wireDidRead() {
        guard let session else { return }
        let now = self.now
        let works = self.pathCheck.read(now)
        if works { self.arm(self.pathCheck.deadline(openStreams: self.openStreams)) }
        if session.progressFrames != self.seenProgressFrames {
            self.seenProgressFrames = session.progressFrames
            self.lastResponse = now
        }
        let wasReady = self.life.state == .ready
        self.deliverResponsesBeforeGoAway(of: session)
        self.handleEvents(of: session)
        if !wasReady, self.life.state == .ready { self.arm(self.pathCheck.deadline(openStreams: 0)) }
        if works { self.pathWorks() }
        self.sendHeld(session, now)
        self.deliverResults()
    }

    /// Delivers the responses that the server sent before its GOAWAY. The results of streams that the GOAWAY ended are
    /// delivered after the event, so that no push is resent over this connection.
    private func deliverResponsesBeforeGoAway(of session: HTTP2ClientSession) {
        guard let count = session.resultsBeforeGoAway else { return }
        session.resultsBeforeGoAway = nil
        let results = Array(session.results.prefix(count))
        session.results.removeFirst(results.count)
        self.deliver(results)
    }

    private func handleEvents(of session: HTTP2ClientSession) {
        guard !session.events.isEmpty else { return }
        let events = session.events
        session.events.removeAll(keepingCapacity: true)
        for event in events { self.handle(event) }
    }

    func wireIsClosed(_ error: WireError) {
        guard self.life.state != .closed else { return }
        let session = self.session
        if self.configuration.toleratesDistrust, error.code == .noHTTP2 {
            self.handshake = self.handler?.handshakeReport
        }
        self.life.closed()
        self.timer?.cancel()
        self.timer = nil
        self.handler = nil
        self.session = nil
        self.resolver?.cancelQueries()
        self.resolver = nil
        for channel in self.pendingChannels { channel.close(mode: .all, promise: nil) }
        self.pendingChannels.removeAll()
        if let session {
            self.deliverResponsesBeforeGoAway(of: session)
            // A GOAWAY that arrived in the same bytes as the end explains the end.
            self.handleEvents(of: session)
            self.deliver(session.results)
        }
        let delegate = self.delegate
        self.formerDelegate = delegate
        self.delegate = nil
        delegate?.connection(self.id, isClosed: self.life.explanation(error))
    }
}
