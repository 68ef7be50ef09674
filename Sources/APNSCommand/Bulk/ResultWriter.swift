import APNSPool
import Synchronization

/// Writes rows to the results as they come, whole lines only, and keeps the window: the pushes that were begun and whose
/// rows are not written yet are never more than it allows. So many may be sent twice by a run that goes on after a kill.
final class ResultWriter: Sendable {
    private struct State {
        var buffer: [UInt8] = []
        var failure: SystemError?
        /// Lines that were let in.
        var begun = 0
        /// Those with an outcome.
        var recorded = 0
        /// Those whose row is out.
        var written = 0
        var isClosed = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private static let pieceSize = 64 * 1024

    private let path: String
    private let descriptor: Int32
    private let window: Int
    /// So many rows are worth a write while somebody waits for room.
    private let worthWriting: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - path: for complaints; `-` is standard output.
    ///   - descriptor: stays the caller's.
    init(path: String, descriptor: Int32, window: Int) {
        self.path = path
        self.descriptor = descriptor
        self.window = max(window, 1)
        self.worthWriting = max(1, min(window / 4, 256))
    }

    deinit { self.flush() }

    /// Why rows could not be written. Whoever pulls further pushes should stop.
    var failure: InputOutputError? {
        self.state.withLock { $0.failure }.map {
            InputOutputError(description: "--results: '\(self.path)' cannot be written: \($0)")
        }
    }

    /// Whether no further line is let in.
    var isClosed: Bool { self.state.withLock { $0.isClosed || $0.failure != nil } }

    /// Lines that were let in and have no outcome.
    var inFlight: Int { self.state.withLock { $0.begun - $0.recorded } }

    // MARK: Lines that go in

    /// Lets lines in, at most `wanted`; 0 if there is no room.
    func admit(upTo wanted: Int) -> Int {
        self.state.withLock { state in
            guard !state.isClosed, state.failure == nil else { return 0 }
            if state.begun - state.written >= self.window { self.flush(&state) }
            let room = min(wanted, self.window - (state.begun - state.written))
            state.begun += max(room, 0)
            return max(room, 0)
        }
    }

    /// Lines that were let in and did not come.
    func giveBack(_ count: Int) {
        self.state.withLock { $0.begun -= count }
    }

    /// Returns when there may be room, or none ever again.
    func waitForRoom() async {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            let isReady = self.state.withLock { state in
                if state.isClosed || state.failure != nil || state.begun - state.written < self.window { return true }
                state.waiter = continuation
                return false
            }
            if isReady { continuation.resume() }
        }
    }

    /// Lets no further line in.
    func close() {
        let waiter = self.state.withLock { state in
            state.isClosed = true
            return state.waiter.take()
        }
        waiter?.resume()
    }

    // MARK: Rows that come out

    /// - Parameter row: nil for a line whose row of an earlier run stays.
    func write(_ row: ResultRow?) {
        let waiter = self.state.withLock { state in
            if let row {
                row.append(to: &state.buffer)
                state.buffer.append(UInt8(ascii: "\n"))
            }
            state.recorded += 1
            if state.buffer.count >= Self.pieceSize { self.flush(&state) }
            let isWorthIt = state.recorded - state.written >= self.worthWriting || state.recorded == state.begun
            return isWorthIt ? state.waiter.take() : nil
        }
        waiter?.resume()
    }

    /// Writes what there is, and wakes who waits for room.
    func flush() {
        let waiter = self.state.withLock { state in
            self.flush(&state)
            return state.waiter.take()
        }
        waiter?.resume()
    }

    private func flush(_ state: inout State) {
        guard state.failure == nil else { return }
        if !state.buffer.isEmpty {
            state.failure = SystemFile.write(state.buffer, to: self.descriptor)
            state.buffer.removeAll(keepingCapacity: true)
        }
        if state.failure == nil { state.written = state.recorded }
    }
}
