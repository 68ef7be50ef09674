import PushQueue
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

    /// The app and the environment that a request names.
    ///
    /// - Parameter environment: nil for the app's default.
    func destination(
        _ name: String,
        _ environment: String?
    ) throws(APIError) -> (app: RelayApp, environment: String) {
        guard let app = self.apps[name] else { throw .invalid("app", "there is no app \(printable(name))") }
        guard let environment = environment ?? app.defaultEnvironment, app.environments[environment] != nil else {
            let names = app.environments.keys.sorted().joined(separator: ", ")
            throw .invalid("environment", "expected one of \(names)")
        }
        return (app, environment)
    }

    func set(_ settings: RelaySettings) {
        let new = Snapshot(settings)
        self.snapshot.withLock { $0 = new }
    }
}
