import SupervisedPool
import Synchronization

/// The newest measured times that have not been exported. Unless an exporter is enabled, nothing is stored and no clock
/// is read.
final class TimeSamples: Sendable {
    static let room = 1024

    private struct State {
        var values: [Int64] = []
        /// The index of the next value when the buffer is full.
        var oldest = 0
    }

    private let isOn = Atomic<Bool>(false)
    private let state = Mutex(State())

    func enable() { self.isOn.store(true, ordering: .relaxed) }

    /// Begins a measurement; nil if measuring is off. `now` is evaluated only if it is on.
    @inline(__always)
    func begin(at now: @autoclosure () -> MonotonicInstant) -> MonotonicInstant? {
        self.isOn.load(ordering: .relaxed) ? now() : nil
    }

    @inline(__always)
    func end(_ began: MonotonicInstant?, at now: @autoclosure () -> MonotonicInstant) {
        guard let began else { return }
        self.record(began.nanoseconds, now().nanoseconds)
    }

    private func record(_ began: Int64, _ ended: Int64) {
        let (nanoseconds, overflow) = ended.subtractingReportingOverflow(began)
        if !overflow { self.record(nanoseconds: nanoseconds) }
    }

    func record(nanoseconds: Int64) {
        guard nanoseconds >= 0, self.isOn.load(ordering: .relaxed) else { return }
        self.state.withLock { state in
            if state.values.count < Self.room {
                state.values.append(nanoseconds)
            } else {
                state.values[state.oldest] = nanoseconds
                state.oldest = (state.oldest + 1) % Self.room
            }
        }
    }

    /// The values since the last call, in nanoseconds.
    func take() -> [Int64] {
        self.state.withLock { state in
            defer { state = State() }
            return state.values
        }
    }
}
