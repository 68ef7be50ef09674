import Synchronization

/// How a supervisor starts, restarts and stops one child: OTP's child specification.
public struct ChildSpec: Sendable {
    /// The child's name, unique among its siblings.
    public struct ID: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
        /// The name.
        public let name: String

        /// Creates a name.
        public init(_ name: String) {
            self.name = name
        }

        public init(stringLiteral value: String) {
            self.name = value
        }

        public var description: String { self.name }
    }

    /// When the supervisor restarts the child.
    public enum Restart: Sendable, Hashable {
        /// Always, whether it throws or returns.
        case permanent
        /// Only if it throws. If it returns or ends by cancellation, it stays stopped and its specification is kept.
        case transient
        /// Never. When it ends for any reason, its specification is removed too.
        case temporary
    }

    /// How the supervisor stops the child.
    public enum Shutdown: Sendable, Hashable {
        /// Cancel its task immediately. Swift cannot kill a task, so the supervisor still waits until it has ended.
        case brutalKill
        /// Ask it to stop, and cancel its task if it has not ended after this time.
        case within(Duration)
        /// Ask it to stop, and wait as long as it takes. Use this for a child that is itself a supervisor.
        case infinity
    }

    /// Whether the child works or supervises. The supervisor only reports it, in ``ChildStatus`` and ``ChildCounts``.
    public enum Kind: Sendable, Hashable {
        /// It does the work.
        case worker
        /// It has children of its own.
        case supervisor
    }

    /// The child's name.
    public let id: ID
    /// When the supervisor restarts it.
    public let restart: Restart
    /// How the supervisor stops it.
    public let shutdown: Shutdown
    /// Whether it is a worker or a supervisor.
    public let kind: Kind
    /// The child's whole lifetime. Each start calls it again.
    public let run: @Sendable (ChildContext) async throws -> Void

    /// Creates a child specification.
    ///
    /// - Parameters:
    ///   - id: The child's name, unique among its siblings.
    ///   - restart: When to restart it. Always, by default.
    ///   - shutdown: How to stop it. By default it is asked to stop and gets 5 s.
    ///   - kind: Whether it is a worker (the default) or a supervisor.
    ///   - run: The child's whole lifetime. It creates the child (a *new* object at each start), calls
    ///     ``ChildContext/started()`` when the next sibling may start, and returns or throws when the child has ended
    ///     and has left nothing running. It does not run on the supervisor's executor.
    public init(
        id: ID,
        restart: Restart = .permanent,
        shutdown: Shutdown = .within(.seconds(5)),
        kind: Kind = .worker,
        run: @escaping @Sendable (ChildContext) async throws -> Void
    ) {
        self.id = id
        self.restart = restart
        self.shutdown = shutdown
        self.kind = kind
        self.run = run
    }

    /// Creates the specification of a supervisor that is a child of another one. The parent asks it to stop, and waits
    /// as long as it takes to stop its own children.
    ///
    /// - Parameters:
    ///   - id: The child's name, unique among its siblings.
    ///   - restart: When to restart it. Always, by default.
    ///   - make: Creates the supervisor. Each start needs a new one, because a supervisor runs only once.
    public static func supervisor(
        id: ID,
        restart: Restart = .permanent,
        _ make: @escaping @Sendable () throws -> Supervisor
    ) -> ChildSpec {
        ChildSpec(id: id, restart: restart, shutdown: .infinity, kind: .supervisor) { context in
            try await make().run(context)
        }
    }
}

/// Connects a child with its supervisor from one start of the child to its end.
public final class ChildContext: Sendable {
    private struct State {
        var hasStarted = false
        var isShuttingDown = false
        var shutdownActions: [@Sendable () -> Void] = []
        var hasEnded = false
        var endActions: [@Sendable () -> Void] = []
    }

    /// The child's name.
    public let id: ChildSpec.ID
    /// 1 for the first start of this child, 2 for the second, and so on.
    public let generation: Int
    private let onStarted: @Sendable () -> Void
    private let state = Mutex(State())

    /// Creates a context by hand, to run a child without a supervisor (in a test, for example).
    ///
    /// - Parameters:
    ///   - id: The child's name.
    ///   - generation: The number of this start, from 1.
    ///   - onStarted: Called on the first call of ``started()``.
    public init(id: ChildSpec.ID, generation: Int = 1, onStarted: @escaping @Sendable () -> Void = {}) {
        self.id = id
        self.generation = generation
        self.onStarted = onStarted
    }

    /// Reports that the child is ready, so that the supervisor starts the next sibling. Only the first call has an
    /// effect.
    public func started() {
        let isFirst = self.state.withLock { state in
            guard !state.hasStarted else { return false }
            state.hasStarted = true
            return true
        }
        if isFirst { self.onStarted() }
    }

    /// Whether the supervisor has asked the child to stop, or cancelled it.
    public var isShuttingDown: Bool {
        self.state.withLock { $0.isShuttingDown }
    }

    /// Registers an action that is called when the supervisor asks the child to stop, before the child's time runs out
    /// and its task is cancelled. If the child has already been asked or cancelled, the action is called immediately.
    /// A cancellation without a request (``ChildSpec/Shutdown/brutalKill``, or a cancelled tree) does not call the
    /// actions that were registered before it.
    ///
    /// The action runs on the supervisor's thread, so it must return immediately: set a flag or finish a stream.
    public func onShutdown(_ action: @escaping @Sendable () -> Void) {
        let isDue = self.state.withLock { state in
            if !state.isShuttingDown { state.shutdownActions.append(action) }
            return state.isShuttingDown
        }
        if isDue { action() }
    }

    /// Asks the child to stop. Called by the supervisor, or by a test that created the context by hand.
    public func requestShutdown() {
        let actions = self.state.withLock { state in
            defer { state.shutdownActions = [] }
            state.isShuttingDown = true
            return state.shutdownActions
        }
        for action in actions { action() }
    }

    /// Registers a monitor: `action` is called when the child's `run` has ended for any reason, before the supervisor
    /// reacts to it. If the child has already ended, it is called immediately.
    ///
    /// The action must return immediately.
    public func onEnd(_ action: @escaping @Sendable () -> Void) {
        let isDue = self.state.withLock { state in
            if !state.hasEnded { state.endActions.append(action) }
            return state.hasEnded
        }
        if isDue { action() }
    }

    /// Notifies the monitors that the child's `run` has ended. Called by the supervisor, or by a test that created the
    /// context by hand. Only the first call has an effect.
    public func end() {
        let actions = self.state.withLock { state in
            defer { state.endActions = [] }
            state.hasEnded = true
            return state.endActions
        }
        for action in actions { action() }
    }

    /// Marks the child as shutting down because it is about to be cancelled without being asked to stop.
    func markCancelled() {
        self.state.withLock { state in
            state.isShuttingDown = true
            state.shutdownActions = []
        }
    }
}

/// A reference to the current instance of a child, for its siblings.
///
/// A restarted child is a new object, so siblings must not store the object itself. The child's `run` calls ``set(_:)``
/// at each start, and its siblings read ``current`` each time they need it.
public final class ChildRef<Child: Sendable>: Sendable {
    private let child: Mutex<Child?>

    /// Creates a reference. It is empty by default.
    public init(_ child: Child? = nil) {
        self.child = Mutex(child)
    }

    /// The current instance of the child; `nil` before its first start and after ``clear()``.
    public var current: Child? {
        self.child.withLock { $0 }
    }

    /// Makes `child` the current instance.
    public func set(_ child: Child) {
        self.child.withLock { $0 = child }
    }

    /// Removes the current instance.
    public func clear() {
        self.child.withLock { $0 = nil }
    }
}
