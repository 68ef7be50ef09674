import Synchronization

/// The apps that an operator has paused. Their pushes stay queued.
final class PausedApps: Sendable {
    private let names: Mutex<Set<String>?>

    /// - Parameter names: the paused apps; nil if they are not known yet. Nothing is sent until they are known.
    init(_ names: Set<String>?) {
        self.names = Mutex(names)
    }

    func set(_ names: Set<String>) { self.names.withLock { $0 = names } }

    /// Whether an app is paused.
    func contains(_ app: String) -> Bool { self.names.withLock { $0?.contains(app) ?? true } }

    /// Why an app is paused; nil if it is not.
    func reason(_ app: String) -> String? {
        self.names.withLock { names in
            guard let names else { return "the relay has not read the settings of the fleet yet" }
            return names.contains(app) ? "an operator has paused the app" : nil
        }
    }
}
