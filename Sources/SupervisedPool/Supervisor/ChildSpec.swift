import Synchronization

/// What a supervisor must know to start, restart and stop one child: OTP's child specification.
public struct ChildSpec: Sendable {
    /// The child's name, unique among its siblings.
    public struct ID: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
        /// The name.
        public let name: String

        /// Names a child.
        public init(_ name: String) {
            self.name = name
        }

        public init(stringLiteral value: String) {
            self.name = value
        }

        public var description: String { self.name }
    }

    /// When the supervisor starts the child again.
    public enum Restart: Sendable, Hashable {
        /// Always: when it throws and when it returns.
        case permanent
        /// When it throws. A normal return, or one by cancellation, ends it; its specification is kept.
        case transient
        /// Never. When it has ended for any reason, its specification is removed too.
        case temporary
    }

    /// How the supervisor stops the child.
    public enum Shutdown: Sendable, Hashable {
        /// Cancel its task at once. Swift cannot kill a task, so the supervisor waits for its end all the same.
        case brutalKill
        /// Ask it to stop, and cancel its task when it has not ended after this time.
        case within(Duration)
        /// Ask it to stop and wait however long it takes. Right for a child that is a supervisor itself.
        case infinity
    }

    /// What the child is, for those who look at the tree.
    public enum Kind: Sendable, Hashable {
        /// It does the work.
        case worker
        /// It has children of its own.
        case supervisor
    }

    /// The child's name.
    public let id: ID
    /// When to start it again.
    public let restart: Restart
    /// How to stop it.
    public let shutdown: Shutdown
    /// How long it may take to call ``ChildContext/started(_:)``; `nil`: for ever.
    public let startTimeout: Duration?
    /// What it is.
    public let kind: Kind
    /// How long restarts wait; `nil`: not at all, as in OTP.
    public let restartBackoff: Backoff?
    /// Whether its end by itself may end the supervisor; see ``AutoShutdown``.
    public let isSignificant: Bool
    /// The child's whole life. Each start calls it anew.
    public let run: @Sendable (ChildContext) async throws -> Void

    /// - Parameters:
    ///   - id: The child's name, unique among its siblings.
    ///   - restart: When to start it again; always, by default.
    ///   - shutdown: How to stop it; by default it is asked and has 5 s.
    ///   - startTimeout: How long it may take to call ``ChildContext/started(_:)``. After that it is stopped, which counts as
    ///     a failed start. `nil`, the default: for ever.
    ///   - kind: What it is; a worker, by default.
    ///   - restartBackoff: Makes each restart wait, longer from failure to failure. It begins anew when the child has
    ///     run for longer than the intensity's period. Restarts count against the intensity all the same, and what the
    ///     strategy restarts with this child is stopped meanwhile. `nil`, the default: restarts do not wait, as in OTP.
    ///   - isSignificant: Whether its end by itself may end the supervisor. Only for transient and temporary children,
    ///     of a supervisor with an ``AutoShutdown``.
    ///   - run: The child's whole life. It makes the child (a *new* object at each start), calls
    ///     ``ChildContext/started(_:)`` when the next sibling may start, and returns or throws when the child has ended and
    ///     nothing of it is left running. It runs off the supervisor's executor.
    public init(
        id: ID,
        restart: Restart = .permanent,
        shutdown: Shutdown = .within(.seconds(5)),
        startTimeout: Duration? = nil,
        kind: Kind = .worker,
        restartBackoff: Backoff? = nil,
        isSignificant: Bool = false,
        run: @escaping @Sendable (ChildContext) async throws -> Void
    ) {
        self.id = id
        self.restart = restart
        self.shutdown = shutdown
        self.startTimeout = startTimeout
        self.kind = kind
        self.restartBackoff = restartBackoff
        self.isSignificant = isSignificant
        self.run = run
    }

    /// The specification of a supervisor below another one: it is asked to stop and waited for, however long its own
    /// children take.
    ///
    /// - Parameters:
    ///   - id: The child's name, unique among its siblings.
    ///   - restart: When to start it again; always, by default.
    ///   - restartBackoff: Makes each restart wait.
    ///   - isSignificant: Whether its end by itself may end the supervisor above.
    ///   - make: Makes the supervisor, a new one at each start: a supervisor runs once.
    public static func supervisor(
        id: ID,
        restart: Restart = .permanent,
        restartBackoff: Backoff? = nil,
        isSignificant: Bool = false,
        _ make: @escaping @Sendable () throws -> Supervisor
    ) -> ChildSpec {
        ChildSpec(
            id: id,
            restart: restart,
            shutdown: .infinity,
            kind: .supervisor,
            restartBackoff: restartBackoff,
            isSignificant: isSignificant
        ) { context in
            try await make().run(context)
        }
    }
}

/// What a child is told by its supervisor, and tells it, during one of its lives.
public final class ChildContext: Sendable {
    private struct State {
        var hasStarted = false
        var startResult: (any Sendable)?
        var isShuttingDown = false
        var shutdownActions: [@Sendable () -> Void] = []
        var hasEnded = false
        var endActions: [@Sendable () -> Void] = []
    }

    /// The child's name.
    public let id: ChildSpec.ID
    /// 1 for the first start of this child, 2 for the second and so on.
    public let generation: Int
    private let onStarted: @Sendable () -> Void
    private let state = Mutex(State())

    /// Makes a context by hand, to run a child without a supervisor (in a test, for example).
    ///
    /// - Parameters:
    ///   - id: The child's name.
    ///   - generation: Which start this is, from 1.
    ///   - onStarted: Called at the first `started()`.
    public init(id: ChildSpec.ID, generation: Int = 1, onStarted: @escaping @Sendable () -> Void = {}) {
        self.id = id
        self.generation = generation
        self.onStarted = onStarted
    }

    /// Says that the child serves now: the supervisor starts the next sibling. Only the first call counts.
    ///
    /// - Parameter result: What ``Supervisor/startChild(_:)`` and ``Supervisor/restartChild(_:)`` return to their caller:
    ///   the third element of OTP's `{ok, Pid, Info}`.
    public func started(_ result: (any Sendable)? = nil) {
        let isFirst = self.state.withLock { state in
            guard !state.hasStarted else { return false }
            state.hasStarted = true
            state.startResult = result
            return true
        }
        if isFirst { self.onStarted() }
    }

    /// What ``started(_:)`` was called with.
    var startResult: (any Sendable)? { self.state.withLock { $0.startResult } }

    /// Whether the supervisor has asked the child to stop, or cancelled it.
    public var isShuttingDown: Bool {
        self.state.withLock { $0.isShuttingDown }
    }

    /// Has `action` called when the supervisor asks the child to stop, which comes before its time runs out and its task
    /// is cancelled; at once if it has been asked already. A child that is cancelled without being asked
    /// (``ChildSpec/Shutdown/brutalKill``, or a cancelled tree) sees the cancellation only.
    ///
    /// The action is called on the supervisor's thread, so it must return at once: set a flag, finish a stream.
    public func onShutdown(_ action: @escaping @Sendable () -> Void) {
        let isDue = self.state.withLock { state in
            if !state.isShuttingDown { state.shutdownActions.append(action) }
            return state.isShuttingDown
        }
        if isDue { action() }
    }

    /// Asks the child to stop. A supervisor does this; a test that made the context by hand may.
    public func requestShutdown() {
        let actions = self.state.withLock { state in
            defer { state.shutdownActions = [] }
            state.isShuttingDown = true
            return state.shutdownActions
        }
        for action in actions { action() }
    }

    /// Calls `action` when the child's `run` has ended, however it ended, and before its supervisor acts on that: a monitor.
    /// Calls it at once if the child has ended already.
    ///
    /// The action must return at once.
    public func onEnd(_ action: @escaping @Sendable () -> Void) {
        let isDue = self.state.withLock { state in
            if !state.hasEnded { state.endActions.append(action) }
            return state.hasEnded
        }
        if isDue { action() }
    }

    /// Tells the monitors that the child's `run` has ended. A supervisor does this; a test that made the context by hand
    /// may. Only the first call counts.
    public func end() {
        let actions = self.state.withLock { state in
            defer { state.endActions = [] }
            state.hasEnded = true
            return state.endActions
        }
        for action in actions { action() }
    }

    /// The child is about to be cancelled without being asked.
    func markCancelled() {
        self.state.withLock { state in
            state.isShuttingDown = true
            state.shutdownActions = []
        }
    }
}

/// Where siblings find each other. A restarted child is a new object, so nobody may keep the old one: the child's `run`
/// puts itself here at each start, and others look here each time.
public final class ChildRef<Child: Sendable>: Sendable {
    private let child: Mutex<Child?>

    /// Makes a reference, by default to nobody.
    public init(_ child: Child? = nil) {
        self.child = Mutex(child)
    }

    /// The child as it now is; `nil` before its first start and after ``clear()``.
    public var current: Child? {
        self.child.withLock { $0 }
    }

    /// Makes `child` the current one.
    public func set(_ child: Child) {
        self.child.withLock { $0 = child }
    }

    /// Forgets the child.
    public func clear() {
        self.child.withLock { $0 = nil }
    }
}
