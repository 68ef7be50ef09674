import SupervisedPool

/// The last faults of connections, newest last. Pure.
struct RecentFaults: Sendable {
    static let room = 20

    private struct Fault {
        var text: String
        var last: MonotonicInstant
        var count = 1
    }

    private var faults: [Fault] = []

    mutating func add(_ text: String, now: MonotonicInstant) {
        if self.faults.last?.text == text {
            self.faults[self.faults.count - 1].count += 1
            self.faults[self.faults.count - 1].last = now
            return
        }
        if self.faults.count >= Self.room { self.faults.removeFirst() }
        self.faults.append(Fault(text: text, last: now))
    }

    func lines(now: MonotonicInstant) -> [String] {
        self.faults.map { fault in
            "\(fault.last.duration(to: now).rounded) ago"
                + (fault.count > 1 ? ", \(fault.count) times in a row" : "") + ": \(fault.text)"
        }
    }
}
