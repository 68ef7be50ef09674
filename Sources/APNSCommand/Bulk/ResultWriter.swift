import APNSBasics
import APNSPool
import Synchronization

/// Writes rows to the results as they arrive, in whole lines, and enforces the window.
///
/// The window limits the pushes that were started but whose rows are not written yet. This is also the most pushes that
/// a resumed run may send twice after a kill.
final class ResultWriter: Sendable {
    private struct State: ~Copyable {
        var buffer = JSONByteWriter()
        var failure: SystemError?
        /// Lines that were admitted.
        var begun = 0
        /// Admitted lines with an outcome.
        var recorded = 0
        /// Lines whose row is written.
        var written = 0
        var isClosed = false
        var waiter: OneShot<Void>?
    }

    private static let pieceSize = 64 * 1024

    private let path: String
    private let descriptor: Int32
    private let window: Int
    /// The number of rows that justify a write while a task waits for room.
    private let worthWriting: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - path: the path for error messages; `-` is standard output.
    ///   - descriptor: the open file, which remains the caller's.
    init(path: String, descriptor: Int32, window: Int) {
        self.path = path
        self.descriptor = descriptor
        self.window = max(window, 1)
        self.worthWriting = max(1, min(window / 4, 256))
    }

    deinit { self.flush() }

    /// The error that prevented rows from being written. When it is set, pull no further pushes.
    var failure: InputOutputError? {
        self.state.withLock { $0.failure }.map {
            InputOutputError(description: "--results: '\(self.path)' cannot be written: \($0)")
        }
    }

    /// Whether no further line is admitted.
    var isClosed: Bool { self.state.withLock { $0.isClosed || $0.failure != nil } }

    /// The number of admitted lines without an outcome.
    var inFlight: Int { self.state.withLock { $0.begun - $0.recorded } }

    // MARK: Admitting lines

    /// Admits lines, at most `wanted`. Returns 0 if there is no room.
    func admit(upTo wanted: Int) -> Int {
        self.state.withLock { state in
            guard !state.isClosed, state.failure == nil else { return 0 }
            if state.begun - state.written >= self.window { self.flush(&state) }
            let room = min(wanted, self.window - (state.begun - state.written))
            state.begun += max(room, 0)
            return max(room, 0)
        }
    }

    /// Returns room that was admitted but not used.
    func giveBack(_ count: Int) {
        self.state.withLock { $0.begun -= count }
    }

    /// Returns when there may be room, or when no further line will be admitted.
    func waitForRoom() async {
        let waiter = OneShot<Void>()
        let isReady = self.state.withLock { state in
            if state.isClosed || state.failure != nil || state.begun - state.written < self.window { return true }
            state.waiter = waiter
            return false
        }
        if !isReady { await waiter.wait() }
    }

    /// Admits no further line.
    func close() {
        let waiter = self.state.withLock { state in
            state.isClosed = true
            return state.waiter.take()
        }
        waiter?.give(())
    }

    // MARK: Writing rows

    /// - Parameter row: the row; nil for a line that keeps its row of an earlier run.
    func write(_ row: ResultRow?) {
        let waiter = self.state.withLock { state in
            if let row {
                row.append(to: &state.buffer)
                state.buffer.literal("\n")
            }
            state.recorded += 1
            if state.buffer.count >= Self.pieceSize { self.flush(&state) }
            let isWorthIt = state.recorded - state.written >= self.worthWriting || state.recorded == state.begun
            return isWorthIt ? state.waiter.take() : nil
        }
        waiter?.give(())
    }

    /// Writes all pending rows, and resumes a task that waits for room.
    func flush() {
        let waiter = self.state.withLock { state in
            self.flush(&state)
            return state.waiter.take()
        }
        waiter?.give(())
    }

    private func flush(_ state: inout State) {
        guard state.failure == nil else { return }
        if state.buffer.count > 0 {
            state.failure = SystemFile.write(state.buffer.bytes(), to: self.descriptor)
            state.buffer.truncate(to: 0)
        }
        if state.failure == nil { state.written = state.recorded }
    }
}
