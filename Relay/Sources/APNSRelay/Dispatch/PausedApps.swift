import Synchronization

/// The apps whose pushes stay queued, because an operator has paused them.
final class PausedApps: Sendable {
    private let names: Mutex<Set<String>?>

    /// - Parameter names: nil if they are not known yet: nothing is sent until they are.
    init(_ names: Set<String>?) {
        self.names = Mutex(names)
    }

    func set(_ names: Set<String>) { self.names.withLock { $0 = names } }

    /// Whether an app is paused.
    func contains(_ app: String) -> Bool { self.names.withLock { $0?.contains(app) ?? true } }

    /// Why an app is paused; nil if it is not.
    func reason(_ app: String) -> String? {
        self.names.withLock { names in
            guard let names else { return "the relay has yet to read the settings of the fleet" }
            return names.contains(app) ? "an operator has paused the app" : nil
        }
    }
}
