import Synchronization

/// The settings that apply now. Each request and each route reads them again, because they change while the relay runs.
final class LiveSettings: Sendable {
    /// Settings that belong together.
    final class Snapshot: Sendable {
        let settings: RelaySettings
        let apps: [String: RelayApp]
        let authentication: CallerAuthentication

        init(_ settings: RelaySettings) {
            self.settings = settings
            self.apps = Dictionary(settings.apps.map { ($0.name, $0) }) { first, _ in first }
            self.authentication = CallerAuthentication(settings.callers)
        }
    }

    private let snapshot: Mutex<Snapshot>

    init(_ settings: RelaySettings) {
        self.snapshot = Mutex(Snapshot(settings))
    }

    var current: Snapshot { self.snapshot.withLock { $0 } }

    /// The apps by name.
    var apps: [String: RelayApp] { self.current.apps }

    func set(_ settings: RelaySettings) {
        let new = Snapshot(settings)
        self.snapshot.withLock { $0 = new }
    }
}
