package import PushQueue

extension WebPushSettings {
    /// What an operator should know about one part of the gateway.
    package struct Finding: Sendable, Hashable {
        /// The app; nil for the whole gateway.
        package var app: String?
        package var isOK: Bool
        package var message: String
    }

    /// Who registers subscriptions.
    ///
    /// - Parameters:
    ///   - apps: the server's apps.
    ///   - registrars: the names of the callers with the role `subscribe`; nil if the server has no callers.
    ///   - now: the time to compare with the expiry of the root certificate.
    package func findings(apps: [GatewayApp], registrars: [String]?, now: QueueTime) -> [Finding] {
        func finding(_ isOK: Bool, _ message: String, app: String? = nil) -> Finding {
            Finding(app: app, isOK: isOK, message: message)
        }
        switch self.registration {
        case .token:
            if registrars?.isEmpty == true {
                return [finding(false, "nobody can register devices; give a caller the role subscribe")]
            }
            let names = registrars?.joined(separator: ", ") ?? "everybody on this machine"
            return [finding(true, "devices are registered by \(names)")]
        case .open:
            return [finding(true, "everybody on this machine registers devices, without verification")]
        case .appAttest(let verifier):
            guard verifier.rootExpiry > now.seconds else {
                return [
                    finding(
                        false,
                        "the root certificate for App Attest has expired; set webPush.appAttestRootFile"
                    )
                ]
            }
            return apps.map { app in
                guard let attested = app.attested("production") else {
                    return finding(false, "no device can register: set app.\(app.name).appIDPrefix", app: app.name)
                }
                return finding(true, "devices register themselves with App Attest, as \(attested.id)", app: app.name)
            }
        }
    }
}
