import APNSModel
import Synchronization

/// Runs a bulk call to one app of a group. It waits until the app's client runs, keeps it from being stopped, and lets the
/// client run the call. When no client can be had, each push is tried by itself and ends with the reason. When the group
/// is shutting down, nothing is pulled.
final class GroupBulkRun: BulkEngine {
    private let sender: APNSAppSender
    private let source: BulkSource
    private let options: BulkOptions
    private let control: BulkControl
    private var hasStarted = false
    private var engine: (any BulkEngine)?
    private var use: ClientGroupCore.Use?
    private let engineWake = EngineWake()

    init(sender: APNSAppSender, _ source: BulkSource, _ options: BulkOptions, _ control: BulkControl) {
        self.sender = sender
        self.source = Self.checked(source, sender)
        self.options = options
        self.control = control
    }

    deinit {
        self.leave()
    }

    /// An arrival before there is an engine needs no wake-up: the engine begins by pulling.
    var wake: @Sendable () -> Void {
        { [engineWake] in engineWake.call() }
    }

    func takeReady() -> (index: Int, outcome: PushOutcome)? { self.engine?.takeReady() }

    func next() async -> (index: Int, outcome: PushOutcome)? {
        if !self.hasStarted {
            self.hasStarted = true
            self.engine = await self.start()
            if let engine { self.engineWake.set(engine.wake) } else { self.source.close() }
        }
        if let delivery = await self.engine?.next() { return delivery }
        self.leave()
        return nil
    }

    private func start() async -> (any BulkEngine)? {
        let core = self.sender.core
        let deadline = core.deadline(self.options.deadline)
        switch await core.use(self.sender.app, self.sender.environment, asCall: true, until: deadline) {
        case .success(let use):
            self.use = use
            return use.client.makeBulkEngine(self.source, self.options, self.control)
        case .failure(let error) where error.code == .shuttingDown:
            return nil
        case .failure:
            return PlainBulkRun(sender: self.sender, self.source, self.options, self.control)
        }
    }

    private func leave() {
        guard let use else { return }
        self.use = nil
        self.sender.core.leave(use)
    }

    /// Refuses pushes for other topics than the app's.
    private static func checked(_ source: BulkSource, _ sender: APNSAppSender) -> BulkSource {
        // Most pushes of a call have one topic.
        var checkedTopic: String?
        return BulkSource(
            pull: { index, room in
                let pulled = source.pull(index, room)
                guard case .push(let push, _, let id) = pulled, push.topic != checkedTopic else { return pulled }
                if var refusal = sender.core.refusal(push, sender.app) {
                    refusal.apnsID = id
                    return .invalid(refusal)
                }
                checkedTopic = push.topic
                return pulled
            },
            close: source.close
        )
    }

    /// Whom to wake, from any thread.
    private final class EngineWake: Sendable {
        private let wake = Mutex<(@Sendable () -> Void)?>(nil)

        func set(_ wake: @escaping @Sendable () -> Void) { self.wake.withLock { $0 = wake } }

        func call() { self.wake.withLock { $0 }?() }
    }
}
