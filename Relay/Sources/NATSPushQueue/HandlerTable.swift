#if NATS
    import JournalPushQueue
    import Synchronization

    /// Where libnats' callbacks find the journal that they belong to.
    ///
    /// A callback gets a number instead of a pointer, so one that runs after the journal was closed finds nothing.
    final class HandlerTable: Sendable {
        private struct State {
            var next: UInt = 1
            var handlers: [UInt: @Sendable (JournalEvent) -> Void] = [:]
        }

        static let shared = HandlerTable()
        private let state = Mutex(State())

        func add(_ handler: @escaping @Sendable (JournalEvent) -> Void) -> UInt {
            self.state.withLock { state in
                defer { state.next &+= 1 }
                state.handlers[state.next] = handler
                return state.next
            }
        }

        func remove(_ key: UInt) { self.state.withLock { $0.handlers[key] = nil } }

        func send(_ event: JournalEvent, to closure: UnsafeMutableRawPointer?) {
            let key = UInt(bitPattern: closure)
            self.state.withLock { $0.handlers[key] }?(event)
        }
    }
#endif
