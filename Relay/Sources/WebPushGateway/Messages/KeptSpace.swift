import PushQueue
import Synchronization

/// The bytes of all kept messages, as one relay knows them: it counts them once a minute, and adds those that it keeps itself.
final class KeptSpace: Sendable {
    static let interval = Duration.seconds(60)

    private struct State {
        var bytes = 0
        var countedAt: QueueTime?
        var isCounting = false
    }

    private let state = Mutex(State())

    /// Takes space for a message.
    ///
    /// - Parameters:
    ///   - size: its size in bytes.
    ///   - limit: the maximum of all messages.
    ///   - messages: where they are kept.
    ///   - now: the time for leases.
    /// - Returns: whether there was room.
    func reserve(
        _ size: Int,
        limit: Int,
        _ messages: KeptMessages,
        now: QueueTime
    ) async throws(QueueError) -> Bool {
        let isDue = self.state.withLock { state in
            let isOld = state.countedAt.map { $0.advanced(by: Self.interval) <= now } ?? true
            guard isOld, !state.isCounting else { return false }
            state.isCounting = true
            return true
        }
        if isDue {
            let counted: Result<Int, QueueError>
            do {
                counted = .success(try await messages.bytes())
            } catch {
                counted = .failure(error)
            }
            self.state.withLock { state in
                state.isCounting = false
                // What was kept while it counted may be missing until the next time.
                guard case .success(let bytes) = counted else { return }
                (state.bytes, state.countedAt) = (bytes, now)
            }
            _ = try counted.get()
        }
        return self.state.withLock { state in
            guard state.bytes + size <= limit else { return false }
            state.bytes += size
            return true
        }
    }
}
