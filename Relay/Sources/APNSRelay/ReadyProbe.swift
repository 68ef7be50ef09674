import PushQueue

/// Finds out whether the queue can store pushes, by storing something.
actor ReadyProbe {
    /// Requests within this time share a result, so that they cannot load the disk.
    private static let lifetime = Duration.seconds(1)

    private let queue: any PushQueue
    private var last: (time: ContinuousClock.Instant, problem: String?)?

    init(_ queue: any PushQueue) {
        self.queue = queue
    }

    /// Why pushes cannot be stored; nil if they can.
    func problem() async -> String? {
        if let last, last.time.duration(to: .now) < Self.lifetime { return last.problem }
        let problem: String?
        do throws(QueueError) {
            try await self.queue.setValue([], forKey: "ready")
            problem = nil
        } catch {
            problem = error.message
        }
        self.last = (.now, problem)
        return problem
    }
}
