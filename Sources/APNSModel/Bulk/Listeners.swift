import Synchronization

/// Callbacks that run after a change. Thread-safe.
package final class Listeners: Sendable {
    private let all = Mutex<[ObjectIdentifier: @Sendable () -> Void]>([:])

    package init() {}

    /// - Parameters:
    ///   - listener: identifies the entry; it is not retained.
    ///   - onChange: called on the thread that makes the change; it must return immediately.
    package func add(_ listener: AnyObject, _ onChange: @escaping @Sendable () -> Void) {
        self.all.withLock { $0[ObjectIdentifier(listener)] = onChange }
    }

    package func remove(_ listener: ObjectIdentifier) {
        self.all.withLock { $0[listener] = nil }
    }

    package func signal() {
        let all = self.all.withLock { Array($0.values) }
        for onChange in all { onChange() }
    }
}
