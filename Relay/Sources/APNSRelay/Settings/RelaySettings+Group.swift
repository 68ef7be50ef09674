import APNSPool
import Logging

extension RelaySettings {
    /// Makes the clients of all apps.
    ///
    /// - Throws: `APNSConfigurationError` if the credential of an app or a limit of the group cannot be used.
    func makeGroup(logger: Logger) throws(APNSConfigurationError) -> APNSClientGroup {
        var configuration = self.group
        configuration.client.logger = logger
        let group = try APNSClientGroup(configuration: configuration)
        for app in self.apps {
            try group.add(
                APNSApp(
                    name: app.name,
                    topic: app.topic,
                    authentication: app.authentication,
                    environments: Set(app.environments.values)
                )
            )
        }
        return group
    }
}
