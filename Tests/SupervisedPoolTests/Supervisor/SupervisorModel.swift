@testable import SupervisedPool

/// OTP's supervisor for children that obey at once, written from OTP's documentation and independent of the machine.
/// Its log has the form of the log of ``SupervisorBench``.
struct SupervisorModel {
    struct Child {
        let spec: ChildSpec
        var isRunning = false
        var starts = 0
    }

    let strategy: SupervisionStrategy
    let intensity: RestartIntensity
    var children: [Child]
    /// The times of the restarts.
    var restarts: [MonotonicInstant] = []
    var log: [String] = []
    /// The number of each child's next starts that fail.
    var failingStarts: [ChildSpec.ID: Int] = [:]
    var hasEnded = false

    init(
        _ strategy: SupervisionStrategy,
        _ children: [ChildSpec],
        _ intensity: RestartIntensity
    ) {
        self.strategy = strategy
        self.intensity = intensity
        self.children = children.map { Child(spec: $0) }
    }

    private func index(_ id: ChildSpec.ID) -> Int? { children.firstIndex { $0.spec.id == id } }

    /// - Returns: whether it has started.
    private mutating func start(_ index: Int) -> Bool {
        children[index].starts += 1
        let id = children[index].spec.id
        log.append("start \(id)\(children[index].starts)")
        let failures = failingStarts[id, default: 0]
        if failures > 0 {
            failingStarts[id] = failures - 1
            return false
        }
        children[index].isRunning = true
        return true
    }

    private mutating func stop(_ index: Int) {
        guard children[index].isRunning else { return }
        children[index].isRunning = false
        log.append("stop \(children[index].spec.id)")
    }

    private mutating func end(_ reason: String) {
        for index in children.indices.reversed() { stop(index) }
        children.removeAll { $0.spec.restart == .temporary }
        hasEnded = true
        log.append("finish" + reason)
    }

    mutating func boot() {
        for index in children.indices where !start(index) {
            end(" startFailed")
            return
        }
        log.append("ready")
    }

    mutating func exit(_ id: ChildSpec.ID, isFailure: Bool, now: MonotonicInstant) {
        guard !hasEnded, let index = index(id), children[index].isRunning else { return }
        children[index].isRunning = false
        let spec = children[index].spec
        switch spec.restart {
        case .permanent:
            restart(id, now)
        case .transient where isFailure:
            restart(id, now)
        case .transient, .temporary:
            if spec.restart == .temporary { children.remove(at: index) }
        }
    }

    /// A restart that fails counts, and is retried.
    private mutating func restart(_ id: ChildSpec.ID, _ now: MonotonicInstant) {
        var id = id
        while true {
            restarts = restarts.filter { $0.advanced(by: intensity.period) >= now } + [now]
            guard restarts.count <= intensity.restarts else { return end(" intensityExceeded") }
            guard let index = index(id) else { return }
            let first = strategy == .oneForAll ? 0 : index
            let last = strategy == .oneForOne ? index : children.count - 1
            let affected = children[first...last].map(\.spec)
            for spec in affected.reversed() {
                if let place = self.index(spec.id) { stop(place) }
            }
            children.removeAll { child in
                child.spec.restart == .temporary && affected.contains { $0.id == child.spec.id } && child.spec.id != id
            }
            if self.index(id).map({ children[$0].spec.restart == .temporary }) ?? false { return }
            var failed: ChildSpec.ID?
            for spec in affected {
                guard let place = self.index(spec.id) else { continue }
                if !start(place) {
                    failed = spec.id
                    break
                }
            }
            guard let failed else { return }
            id = failed
        }
    }

    mutating func shutdown() {
        guard !hasEnded else { return }
        end("")
    }

    mutating func command(_ command: SupervisorStateMachine.Command, _ number: Int) {
        func record(_ text: String) { log.append(text) }
        guard !hasEnded else { return record("no \(number) notRunning") }
        switch command {
        case .start(let spec):
            guard index(spec.id) == nil else { return record("no \(number) childExists") }
            children.append(Child(spec: spec))
            if start(children.count - 1) { return record("ok \(number)") }
            children.removeLast()
            record("no \(number) startFailed")
        case .terminate(let id):
            guard let index = index(id) else { return record("no \(number) childNotFound") }
            stop(index)
            if children[index].spec.restart == .temporary { children.remove(at: index) }
            record("ok \(number)")
        case .restart(let id):
            guard let index = index(id) else { return record("no \(number) childNotFound") }
            guard !children[index].isRunning else { return record("no \(number) childRunning") }
            record(start(index) ? "ok \(number)" : "no \(number) startFailed")
        case .delete(let id):
            guard let index = index(id) else { return record("no \(number) childNotFound") }
            guard !children[index].isRunning else { return record("no \(number) childRunning") }
            children.remove(at: index)
            record("ok \(number)")
        }
    }
}
