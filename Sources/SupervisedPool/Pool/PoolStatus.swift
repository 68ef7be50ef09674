/// A pool at one moment.
public struct PoolStatus: Sendable, Hashable, CustomStringConvertible {
    /// poolboy's three states.
    public enum State: Sendable, Hashable {
        /// A slot is free, or a worker below `size` may still provide one.
        case ready
        /// At least one overflow worker is connected or connecting.
        case overflow
        /// No slot is free and no further worker could connect.
        case full
    }

    /// Whether checkouts can be served.
    public enum Availability: Sendable, Hashable {
        /// A worker is ready.
        case available
        /// No worker is ready, for less than ``PoolConfiguration/unavailableAfter`` or without a failed attempt.
        case degraded(since: MonotonicInstant)
        /// No worker has been ready since then, and attempts fail. The next one is made at `nextProbe`.
        case unavailable(since: MonotonicInstant, nextProbe: MonotonicInstant)
    }

    /// One worker.
    public struct Worker: Sendable, Hashable, CustomStringConvertible {
        /// What a worker is doing.
        public enum State: Sendable, Hashable {
            /// Nobody is registered for this slot, or it has ended.
            case absent
            /// It has no session and is not asked for one.
            case idle
            /// It opens a session.
            case connecting
            /// Its session takes work.
            case ready
            /// Its session finishes what it has, and takes nothing more.
            case draining
            /// Its last attempt failed; the next one is made at this time.
            case backingOff(until: MonotonicInstant)
        }
        /// Which worker it is, and in which of its lives.
        public let id: WorkerID
        /// What it is doing.
        public let state: State
        /// Slots of the present session.
        public let capacity: Int
        /// Leased slots of the present session.
        public let leased: Int
        /// Leased slots of earlier sessions that have not been returned yet.
        public let leasedOfEarlierSessions: Int
        /// How long the present session has been ready; `nil` without one.
        public let age: Duration?
        /// How long its peer takes for an answer, smoothed, as it last reported; `nil` before.
        public let latency: Duration?
        /// Whether it is above ``PoolConfiguration/size``.
        public let isOverflow: Bool

        private var stateText: String {
            // An instant of a monotonic clock says nothing to a reader.
            if case .backingOff = self.state { "backing off" } else { "\(self.state)" }
        }

        public var description: String {
            var text = "\(self.id) \(self.stateText) \(self.leased)/\(self.capacity)"
            if let age { text += ", \(age.formatted) old" }
            if let latency { text += ", answers in \(latency.formatted)" }
            return self.isOverflow ? text + ", overflow" : text
        }
    }

    /// Whether there is room.
    public let state: State
    /// Whether checkouts can be served.
    public let availability: Availability
    /// All workers, by slot.
    public let workers: [Worker]
    /// How many checkouts wait, in both lanes.
    public let queueDepth: Int
    /// How many of them are bulk checkouts. One stands for all the work of its caller.
    public let bulkQueueDepth: Int
    /// The bytes that they stand for.
    public let queuedBytes: Int
    /// Slots of all ready workers.
    public let capacity: Int
    /// Leased slots of all present sessions.
    public let leased: Int

    public var description: String {
        let list = self.workers.map { "\($0)" }.joined(separator: ", ")
        return
            "\(self.state), \(self.leased)/\(self.capacity) streams leased, \(self.queueDepth) waiting (\(self.queuedBytes) bytes), "
            + "workers [\(list)]"
    }
}

/// What a pool tells whoever watches it. Later versions may add cases.
public enum PoolEvent: Sendable {
    /// A worker registered.
    case registered(WorkerID)
    /// A worker told of a change of its state.
    case reported(WorkerID, WorkerReport)
    /// A worker was asked to connect.
    case askedToConnect(WorkerID, PoolWorkerConnectReason)
    /// A worker was asked to disconnect.
    case askedToDisconnect(WorkerID, PoolWorkerDisconnectReason)
    /// No worker has been ready for too long: checkouts fail, or wait, as configured.
    case unavailable(since: MonotonicInstant, PoolFault?)
    /// A worker is ready again.
    case available
    /// A worker reported a fault in the configuration while no worker was ready.
    case configurationFault(PoolFault, until: MonotonicInstant)
    /// The pool's books do not balance: slots were returned that nobody had. The pool ends.
    case invariantBroken(String)
    /// So many events are missing here, because the reader of ``Pool/events(bufferingNewest:)`` was too slow.
    case missed(Int)
}
