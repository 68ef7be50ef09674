import Synchronization

/// A list of events in order, written from any thread. A test can wait for an entry instead of sleeping.
public final class Journal<Entry: Sendable>: Sendable {
    private struct Watcher {
        let id: Int
        let isMet: @Sendable ([Entry]) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var entries: [Entry] = []
        var watchers: [Watcher] = []
        var lastID = 0
        /// Waits that were cancelled before they began.
        var cancelled: Set<Int> = []
    }

    private let state = Mutex(State())

    public init() {}

    /// All entries so far.
    public var entries: [Entry] {
        state.withLock { $0.entries }
    }

    /// Adds an entry.
    public func write(_ entry: Entry) {
        let met = state.withLock { state -> [Watcher] in
            state.entries.append(entry)
            let entries = state.entries
            let met = state.watchers.filter { $0.isMet(entries) }
            if !met.isEmpty { state.watchers.removeAll { $0.isMet(entries) } }
            return met
        }
        for watcher in met { watcher.continuation.resume() }
    }

    /// Returns when the entries satisfy `isMet`, or when the task is cancelled, for example by the test's time limit.
    public func wait(until isMet: @escaping @Sendable ([Entry]) -> Bool) async {
        let id = state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.cancelled.remove(id) != nil || isMet(state.entries) { return true }
                    state.watchers.append(Watcher(id: id, isMet: isMet, continuation: continuation))
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let watcher = state.withLock { state -> Watcher? in
                guard let index = state.watchers.firstIndex(where: { $0.id == id }) else {
                    state.cancelled.insert(id)
                    return nil
                }
                return state.watchers.remove(at: index)
            }
            watcher?.continuation.resume()
        }
    }

    /// Returns when there are at least `count` entries.
    public func wait(count: Int) async {
        await wait { $0.count >= count }
    }
}
