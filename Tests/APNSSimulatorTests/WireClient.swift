import NIOCore
import NIOPosix
import TestSupport

@testable import APNSSimulator
@testable import APNSTransport

/// A minimal client connection to a simulator: an actor on the connection's loop, like the library's connection owner.
actor WireClient: ConnectionDelegate {
    nonisolated var unownedExecutor: UnownedSerialExecutor { self.loop.executor.asUnownedSerialExecutor() }

    private let loop: any EventLoop
    private let port: Int
    private let tls: TLSContext
    private let pings: PathCheck.Limits
    private var connection: Connection?
    private var ready: CheckedContinuation<Bool, Never>?
    private var waiting: [(isMet: (WireClient) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []
    private var nextTag: UInt64 = 0
    private(set) var results: [UInt64: StreamResult] = [:]
    /// The tags of the results, in the order of their arrival.
    private(set) var finished: [UInt64] = []
    private(set) var limits: [Int] = []
    private(set) var goAway: WireError?
    private(set) var closeError: WireError?

    /// - Parameter pings: When the connection sends PINGs; by default never.
    init(
        _ simulator: Simulator,
        pings: PathCheck.Limits = .patient,
        certificate: SimulatedCertificate? = nil
    ) throws {
        self.loop = MultiThreadedEventLoopGroup.singleton.next()
        self.port = simulator.port
        self.pings = pings
        var tls = TLSConfiguration()
        tls.caPEM = simulator.certificateAuthorityPEM
        tls.trustsSystemRoots = false
        tls.certificateChainPEM = certificate?.certificatePEM
        tls.privateKeyPEM = certificate?.privateKeyPEM
        self.tls = try TLSContext(.client, configuration: tls)
    }

    /// Connects. Returns false if the attempt failed.
    func open() async -> Bool {
        var configuration = Connection.Configuration(
            host: "localhost",
            port: self.port,
            tls: self.tls,
            variableNames: [":path", "apns-id"]
        )
        configuration.pathCheck = self.pings
        configuration.connectTimeout = .minutes(10)
        let connection = Connection(id: 1, configuration: configuration, loop: self.loop, delegate: self)
        self.connection = connection
        return await withCheckedContinuation {
            self.ready = $0
            connection.open()
        }
    }

    /// Submits requests in one batch. Tags count from 1 over the client's life.
    @discardableResult
    func submit(_ count: Int, jwt: String?, payload: String = Sample.payload, ids: [String] = []) -> [UInt64] {
        var fields: [HeaderBlock.Field] = [
            .init(":method", "POST"), .init(":scheme", "https"), .init(":authority", "localhost"),
            .init("apns-topic", Sample.topic), .init("apns-push-type", "alert"),
        ]
        if let jwt { fields.append(.init("authorization", "bearer \(jwt)")) }
        let shared = HeaderBlock(fields)
        let submissions = (0..<count).map { index in
            self.nextTag += 1
            let path = Array("/3/device/\(Sample.deviceToken)".utf8)
            let id = Array((index < ids.count ? ids[index] : "").utf8)
            let request = HTTP2Request(
                shared: shared,
                credential: nil,
                values: path + id,
                valueLengths: [UInt16(path.count), UInt16(id.count), 0, 0, 0, 0, 0, 0],
                body: Array(payload.utf8)
            )
            return StreamSubmission(
                request: request,
                tag: StreamTag(self.nextTag),
                deadline: self.loop.now + TimeAmount(Patience.limit)
            )
        }
        self.connection?.submit(submissions)
        return submissions.map(\.tag.rawValue)
    }

    /// Sends requests and waits for all their results, in the order of their streams.
    func send(_ count: Int, jwt: String?, payload: String = Sample.payload) async -> [StreamResult] {
        let tags = self.submit(count, jwt: jwt, payload: payload)
        return await self.results(tags)
    }

    func results(_ tags: [UInt64]) async -> [StreamResult] {
        await self.wait { client in client.assumeIsolated { client in tags.allSatisfy { client.results[$0] != nil } } }
        return tags.compactMap { self.results[$0] }
    }

    func cancel(_ tag: UInt64) {
        self.connection?.cancel(tag: StreamTag(tag))
        self.connection?.flush()
    }

    func close() { self.connection?.close() }

    func closed() async -> WireError? {
        await self.wait { client in client.assumeIsolated { $0.closeError != nil } }
        return self.closeError
    }

    func limit(_ limit: Int) async {
        await self.wait { client in client.assumeIsolated { $0.limits.last == limit } }
    }

    private func wait(_ isMet: @escaping (WireClient) -> Bool) async {
        if isMet(self) { return }
        await withCheckedContinuation { self.waiting.append((isMet, $0)) }
    }

    private func resumeWaiting() {
        let waiting = self.waiting
        self.waiting = []
        for waiter in waiting {
            if waiter.isMet(self) { waiter.continuation.resume() } else { self.waiting.append(waiter) }
        }
    }

    nonisolated func connection(_ id: Int, isReadyWithMaxConcurrentStreams limit: Int) {
        self.assumeIsolated { client in
            client.limits.append(limit)
            client.ready?.resume(returning: true)
            client.ready = nil
        }
    }

    nonisolated func connection(_ id: Int, streamLimitChangedTo limit: Int) {
        self.assumeIsolated { client in
            if client.limits.last != limit { client.limits.append(limit) }
            client.resumeWaiting()
        }
    }

    nonisolated func connection(_ id: Int, isGoingAway error: WireError) {
        self.assumeIsolated { $0.goAway = error }
    }

    nonisolated func connection(_ id: Int, finished results: [StreamResult]) {
        self.assumeIsolated { client in
            for result in results {
                client.results[result.tag.rawValue] = result
                client.finished.append(result.tag.rawValue)
            }
            client.resumeWaiting()
        }
    }

    nonisolated func connection(_ id: Int, isClosed error: WireError) {
        self.assumeIsolated { client in
            client.closeError = error
            client.ready?.resume(returning: false)
            client.ready = nil
            client.resumeWaiting()
        }
    }
}
