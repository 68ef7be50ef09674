import SupervisedPool
import Synchronization

/// The last faults of connections, the newest last.
final class RecentFaults: Sendable {
    static let room = 20

    private struct Fault {
        var text: String
        var last: MonotonicInstant
        var count = 1
    }

    private let faults = Mutex<[Fault]>([])

    func add(_ text: String, now: MonotonicInstant) {
        self.faults.withLock { faults in
            if faults.last?.text == text {
                faults[faults.count - 1].count += 1
                faults[faults.count - 1].last = now
                return
            }
            if faults.count >= Self.room { faults.removeFirst() }
            faults.append(Fault(text: text, last: now))
        }
    }

    func lines(now: MonotonicInstant) -> [String] {
        self.faults.withLock { $0 }.map { fault in
            "\(fault.last.duration(to: now).rounded) ago"
                + (fault.count > 1 ? ", \(fault.count) times in a row" : "") + ": \(fault.text)"
        }
    }
}
