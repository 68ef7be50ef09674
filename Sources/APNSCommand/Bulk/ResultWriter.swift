import APNSBasics
import APNSPool
import Synchronization

/// Writes rows to the results, in whole lines. Buffers rows, so that one system call writes many of them.
final class ResultWriter: Sendable {
    private struct State: ~Copyable {
        var buffer = JSONByteWriter()
        /// Rows in the buffer.
        var rows = 0
        var failure: SystemError?
    }

    private static let pieceSize = 64 * 1024

    private let path: String
    private let descriptor: Int32
    private let capacity: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - path: the path for error messages; `-` is standard output.
    ///   - descriptor: the open file, which remains the caller's.
    ///   - capacity: when this many rows are buffered, they are written.
    init(path: String, descriptor: Int32, capacity: Int) {
        self.path = path
        self.descriptor = descriptor
        self.capacity = capacity
    }

    deinit { self.flush() }

    /// The error that prevented rows from being written. When it is set, pull no further pushes.
    var failure: InputOutputError? {
        self.state.withLock { $0.failure }.map {
            InputOutputError(description: "--results: '\(self.path)' cannot be written: \($0)")
        }
    }

    func write(_ row: ResultRow) {
        self.state.withLock { state in
            row.append(to: &state.buffer)
            state.buffer.literal("\n")
            state.rows += 1
            if state.rows >= self.capacity || state.buffer.count >= Self.pieceSize { self.flush(&state) }
        }
    }

    /// Writes all rows.
    func flush() {
        self.state.withLock { self.flush(&$0) }
    }

    private func flush(_ state: inout State) {
        guard state.failure == nil, state.rows > 0 else { return }
        state.failure = SystemFile.write(state.buffer.bytes(), to: self.descriptor)
        state.buffer.truncate(to: 0)
        state.rows = 0
    }
}
