import APNSModel
import ServiceLifecycle
import SupervisedPool
import Synchronization

/// Runs a bulk call to one app of a group. It waits until the app's client runs, keeps the client from being stopped,
/// and lets it run the call. Nothing is pulled while the app waits for its turn.
///
/// If the group has no such app, its client cannot be made, its credential was revoked, or the group is not running, the
/// first push ends with that error and no further one is pulled.
final class GroupBulkRun: BulkEngine {
    private let sender: APNSAppSender
    private let source: BulkSource
    private let options: BulkOptions
    private let control: BulkControl
    private var hasStarted = false
    /// Nil before the start.
    private var engine: (any BulkEngine)?
    /// Why the call ended without the app's client.
    private var failure: PushError?
    private let engineWake = EngineWake()

    init(sender: APNSAppSender, _ source: BulkSource, _ options: BulkOptions, _ control: BulkControl) {
        self.sender = sender
        self.source = Self.checked(source, sender)
        self.options = options
        self.control = control
    }

    deinit {
        self.source.close()
    }

    /// A push that arrives before the engine exists needs no wake-up: the engine begins by pulling.
    var wake: @Sendable () -> Void {
        { [engineWake] in engineWake.call() }
    }

    func takeReady() -> (index: Int, outcome: PushOutcome)? { self.engine?.takeReady() }

    func next() async -> (index: Int, outcome: PushOutcome)? {
        if !self.hasStarted {
            self.hasStarted = true
            let engine = await self.start()
            self.engine = engine
            self.engineWake.set(engine.wake)
        }
        if let delivery = await self.engine?.next() { return delivery }
        return nil
    }

    func finish(_ end: BulkEnd) -> BulkSummary {
        let end = end.isFinished ? end : BulkEnd(isFinished: false, stopped: self.failure ?? end.stopped)
        return self.engine?.finish(end) ?? BulkSummary()
    }

    private func start() async -> any BulkEngine {
        switch await self.waitForClient() {
        case .success(let client):
            // The run ends the call that has begun here.
            return BulkRun(client.runtime.sending, self.source, self.options, self.control, isHeld: true)
        case .failure(let error):
            var source = self.source
            switch error.code {
            case .configuration, .credential, .notRunning:
                self.failure = error
                source = Self.failing(source, with: error)
            default:
                // Nothing was pulled. The run ends at once.
                source.close()
            }
            return SequentialBulkRun(sender: self.sender, source, self.options, self.control)
        }
    }

    /// Waits for the app's turn. A cancellation, a stop or a graceful shutdown ends the wait.
    private func waitForClient() async -> Result<APNSClient, PushError> {
        let sender = self.sender.sender
        let (app, environment, control) = (self.sender.app, self.sender.environment, self.control)
        let deadline = sender.registry.hasRun ? MonotonicInstant.distantFuture : sender.deadline(self.options.deadline)
        let wait = Task { @concurrent in await sender.beginCall(app, environment, until: deadline) }
        // Identifies the entry in `control.listeners`: any object that belongs to this call alone will do.
        let listener = self.engineWake
        control.listeners.add(listener) { if control.isStopped { wait.cancel() } }
        defer { control.listeners.remove(ObjectIdentifier(listener)) }
        if control.isStopped { wait.cancel() }
        return await withTaskCancellationHandler {
            await withGracefulShutdownHandler {
                await wait.value
            } onGracefulShutdown: {
                wait.cancel()
            }
        } onCancel: {
            wait.cancel()
        }
    }

    /// Rejects pushes for topics that do not belong to the app.
    private static func checked(_ source: BulkSource, _ sender: APNSAppSender) -> BulkSource {
        // Most pushes of a call have one topic, so remember the last one that passed.
        var checkedTopic: String?
        return BulkSource(
            pull: { index, room in
                let pulled = source.pull(index, room)
                guard case .push(let push, _, let id) = pulled, push.topic != checkedTopic else { return pulled }
                if var refusal = sender.sender.registry.refusal(push.topic, sender.app) {
                    refusal.apnsID = id
                    return .invalid(refusal)
                }
                checkedTopic = push.topic
                return pulled
            },
            close: source.close
        )
    }

    /// Fails the first push, and those that the input has already read, with this error; no further one is pulled.
    private static func failing(_ source: BulkSource, with error: PushError) -> BulkSource {
        BulkSource(
            pull: { index, room in
                let pulled = source.pull(index, room)
                switch pulled {
                case .push(_, _, let id):
                    source.close()
                    var error = error
                    error.apnsID = id
                    return .invalid(error)
                case .invalid:
                    source.close()
                    return pulled
                case .later, .end:
                    return pulled
                }
            },
            close: source.close
        )
    }

    /// The engine's wake-up function, callable from any thread.
    final class EngineWake: Sendable {
        // A function that is a mutex's whole value is wrapped again at each `withLock`, so each call would take longer
        // than the one before.
        private struct Wake: Sendable {
            var call: (@Sendable () -> Void)?
        }

        private let wake = Mutex(Wake())

        func set(_ wake: @escaping @Sendable () -> Void) { self.wake.withLock { $0.call = wake } }

        func call() { self.wake.withLock { $0.call }?() }
    }
}
