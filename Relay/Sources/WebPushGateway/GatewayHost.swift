package import APNSModel
package import PushQueue

/// What the gateway needs of the server in which it runs.
package protocol GatewayHost: Sendable {
    /// An app by its name; nil if there is none.
    func app(_ name: String) -> GatewayApp?

    /// The app and the environment that a request names.
    ///
    /// - Parameter environment: nil for the app's default.
    /// - Throws: an error of the server if there is no such app or environment.
    func destination(_ app: String, _ environment: String?) throws -> (app: GatewayApp, environment: String)

    /// Takes one push from each of several rates, or from none.
    ///
    /// - Parameter limits: the names of the rates, and how many pushes a minute each admits.
    /// - Returns: nil if the push is admitted; otherwise how long to wait.
    func take(_ limits: [(name: String, pushesPerMinute: Int)]) -> Duration?

    /// Stores a push.
    ///
    /// - Returns: its id, or that of the earlier request that this one repeats.
    /// - Throws: `QueueError` with the code `undecided` if it may be stored; otherwise it is not stored.
    func store(_ push: NewPush) async throws -> APNSID
}

/// An app of the server.
package struct GatewayApp: Sendable, Hashable {
    package let name: String
    /// The bundle ID.
    package let topic: String
    /// What precedes the bundle ID in the app ID; nil if it is not known.
    package let appIDPrefix: String?

    package init(name: String, topic: String, appIDPrefix: String?) {
        self.name = name
        self.topic = topic
        self.appIDPrefix = appIDPrefix
    }

    /// The app as App Attest knows it; nil if its app ID prefix is not known.
    func attested(_ environment: String) -> AppAttestApp? {
        self.appIDPrefix.map {
            AppAttestApp(id: "\($0).\(self.topic)", allowsDevelopment: environment == "development")
        }
    }
}
