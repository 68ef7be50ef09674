import APNSTransport
import NIOCore
import SupervisedPool
import TestSupport

@testable import APNSPool

extension HTTP2Request {
    static var empty: HTTP2Request {
        HTTP2Request(shared: HeaderBlock([]), credential: nil, values: [], valueLengths: SIMD8(), body: [])
    }
}

extension PushAttempt {
    /// - Parameter origin: by default a lease that no pool knows.
    convenience init(
        _ request: HTTP2Request,
        deadline: MonotonicInstant = .distantFuture,
        origin: LeaseOrigin = LeaseOrigin(worker: WorkerID(index: 0, generation: 0), connection: 1)
    ) {
        self.init(StreamSubmission(request: request, tag: 0, deadline: NIODeadline(deadline)), origin: origin)
    }

    /// Waits for the result of an attempt that `body` must end.
    static func withResult(
        origin: LeaseOrigin = LeaseOrigin(worker: WorkerID(index: 0, generation: 0), connection: 1),
        isolation: isolated (any Actor)? = #isolation,
        _ body: (PushAttempt) -> Void
    ) async -> StreamResult {
        let attempt = PushAttempt(.empty, origin: origin)
        #if DEBUG
            return await withCheckedContinuation {
                attempt.begin($0)
                body(attempt)
            }
        #else
            return await withUnsafeContinuation {
                attempt.begin($0)
                body(attempt)
            }
        #endif
    }
}

extension ConnectionActor {
    /// Sends one request with the first stream of a lease, and waits for its result.
    nonisolated func send(
        _ request: HTTP2Request,
        with lease: inout PoolLease<ConnectionActor>,
        deadline: MonotonicInstant
    ) async -> StreamResult {
        _ = lease.take(1)
        return await self.send(PushAttempt(request, deadline: deadline, origin: lease.origin))
    }

    var pendingCount: Int { self.pending.waiting.count }

    /// Makes an attempt that is pending, but that no connection has.
    func sendForgotten() async -> StreamResult {
        await PushAttempt.withResult { _ = self.pending.insert($0) }
    }

    /// Ends the worker as a defect in the library would.
    func crash() {
        for connection in self.connections.values { connection.breakInvariant() }
    }
}

extension APNSClient {
    /// Crashes the worker that the next push would get.
    ///
    /// - Returns: false if no worker gave a stream.
    func crashWorker(within time: Duration = Patience.limit) async -> Bool {
        do {
            let lease = try await self.runtime.pool.checkout(deadline: self.runtime.clock.now.advanced(by: time))
            await lease.worker.crash()
            return true
        } catch {
            return false
        }
    }
}
