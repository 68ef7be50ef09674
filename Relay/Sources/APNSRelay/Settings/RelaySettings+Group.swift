import APNSPool
import Logging

extension RelaySettings {
    /// Makes the clients of all apps.
    ///
    /// - Parameters:
    ///   - tokens: the shared provider tokens; nil to use the token source of each app's credential.
    ///   - logger: the clients' logger.
    /// - Throws: `APNSConfigurationError` if the credential of an app or a limit of the group cannot be used.
    func makeGroup(tokens: (any ProviderTokenSource)? = nil, logger: Logger) throws(APNSConfigurationError)
        -> APNSClientGroup
    {
        var configuration = self.group
        configuration.client.logger = logger
        let group = try APNSClientGroup(configuration: configuration)
        for app in self.groupApps(tokens: tokens) { try group.add(app) }
        return group
    }

    /// The apps as the group of clients knows them.
    func groupApps(tokens: (any ProviderTokenSource)?) -> [APNSApp] {
        self.apps.map { app in
            var authentication = app.authentication
            // Certificates have no provider token, and ignore it. An app's own `tokenFile` stays, because other programs may
            // share it; only the tokens in a database replace it.
            if let tokens, authentication.tokenSource == nil || !(tokens is FileTokenSource) {
                authentication.tokenSource = tokens
            }
            return APNSApp(
                name: app.name,
                topic: app.topic,
                authentication: authentication,
                environments: Set(app.environments.values)
            )
        }
    }
}
