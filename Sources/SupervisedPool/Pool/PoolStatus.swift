/// The state of a pool at one moment.
public struct PoolStatus: Sendable, Hashable, CustomStringConvertible {
    /// poolboy's three states.
    public enum State: Sendable, Hashable {
        /// A stream is free, or another worker can still connect to provide one.
        case ready
        /// Like ``ready``, and at least one overflow worker is connected or connecting.
        case overflow
        /// No stream is free, and no further worker can connect.
        case full
    }

    /// Whether checkouts can be served.
    public enum Availability: Sendable, Hashable {
        /// A worker is ready, or no worker has failed or been lost.
        case available
        /// No worker has been ready since `since`. Either this has lasted for less than
        /// ``PoolConfiguration/unavailableAfter``, or no worker has failed to connect.
        case degraded(since: MonotonicInstant)
        /// No worker has been ready since `since`, and workers fail to connect. The next one connects at `nextTry`.
        case unavailable(since: MonotonicInstant, nextTry: MonotonicInstant)
    }

    /// One worker.
    public struct Worker: Sendable, Hashable, CustomStringConvertible {
        /// The states of a worker.
        public enum State: Sendable, Hashable {
            /// No worker is registered at this index, or it has ended.
            case absent
            /// It has no connection, and has not reported that it is opening one.
            case idle
            /// It is opening a connection.
            case connecting
            /// Its connection accepts work.
            case ready
            /// Its connection finishes the work it has and accepts no more.
            case draining
            /// It failed to connect, or lost its connection. It connects again at this time.
            case backingOff(until: MonotonicInstant)
        }
        /// The worker's index and generation.
        public let id: WorkerID
        /// The worker's state.
        public let state: State
        /// How many streams the current connection may carry.
        public let capacity: Int
        /// Leased streams of the current connection.
        public let leased: Int
        /// Leased streams of earlier connections that have not been returned yet.
        public let leasedOfEarlierConnections: Int
        /// How long the current connection has been ready; `nil` if there is none.
        public let age: Duration?
        /// The smoothed response time of its peer, as last reported; `nil` before the first report.
        public let latency: Duration?
        /// Whether its index is ``PoolConfiguration/size`` or above.
        public let isOverflow: Bool

        private var stateText: String {
            // An instant of a monotonic clock means nothing to a reader.
            if case .backingOff = self.state { "backing off" } else { "\(self.state)" }
        }

        public var description: String {
            var text = "\(self.id) \(self.stateText) \(self.leased)/\(self.capacity)"
            if let age { text += ", \(age.formatted) old" }
            if let latency { text += ", responds in \(latency.formatted)" }
            return self.isOverflow ? text + ", overflow" : text
        }
    }

    /// Whether streams are free, or how they could become free.
    public let state: State
    /// Whether checkouts can be served.
    public let availability: Availability
    /// All workers, by index.
    public let workers: [Worker]
    /// How many checkouts are waiting, in both lanes.
    public let queueDepth: Int
    /// How many of them are bulk checkouts. A bulk checkout represents all the work of its caller.
    public let bulkQueueDepth: Int
    /// The total size of the waiting checkouts, in bytes, as declared by their callers.
    public let queuedBytes: Int
    /// The number of streams of all ready workers.
    public let capacity: Int
    /// Leased streams of all current connections.
    public let leased: Int

    public var description: String {
        let list = self.workers.map { "\($0)" }.joined(separator: ", ")
        return
            "\(self.state), \(self.leased)/\(self.capacity) streams leased, \(self.queueDepth) waiting "
            + "(\(self.queuedBytes) bytes), workers [\(list)]"
    }
}

/// The events that a pool publishes. Later versions may add cases.
public enum PoolEvent: Sendable {
    /// A worker registered.
    case registered(WorkerID)
    /// A worker reported a change, or its run has ended (`gone`).
    case reported(WorkerID, WorkerReport)
    /// A worker was asked to connect.
    case askedToConnect(WorkerID, PoolWorkerConnectReason)
    /// A worker was asked to disconnect.
    case askedToDisconnect(WorkerID, PoolWorkerDisconnectReason)
    /// No worker has been ready for too long. Checkouts fail or wait, as configured.
    case unavailable(since: MonotonicInstant, PoolFault?)
    /// A worker is ready again.
    case available
    /// A worker reported a fault in the configuration while no worker was ready.
    case configurationFault(PoolFault, until: MonotonicInstant)
    /// The pool's state is inconsistent: more streams were returned than were leased. The pool ends.
    case invariantBroken(String)
}
